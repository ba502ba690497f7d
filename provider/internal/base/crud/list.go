package crud

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
	fwpath "github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

var _ list.ListResourceWithConfigure = (*listResource[kube.Object])(nil)

// List says how the objects of one kind are listed as resources.
type List[O kube.Object] struct {
	// Plural is what the objects are called.
	Plural string
	// About is what readers should know of this list beyond what all have in common.
	About string
	// Objects is an empty list of the kind.
	Objects runtime.Object
	// Within, where it is set, are the namespace and the fields of all objects.
	Within kube.ListOptions
	// Without are attributes that are secret, and are left out.
	Without []string
	// Needs says what a hub needs to serve the kind; empty where every hub does. One
	// without the kind has no such objects.
	Needs string

	// What follows may be nil.

	// Is leaves out objects that are no such resource at all.
	Is func(O) bool
	// Managed tells whether a resource in Terraform manages the object. If nil, the
	// provider's mark and its field manager tell.
	Managed func(O) bool
	// Generated tells what the hub or a controller makes and keeps itself. If nil, owner
	// references tell.
	Generated func(O) bool
	// Cluster is the name of the cluster that the object is about. It allows to list
	// those of the clusters in a set.
	Cluster func(O) string
	// Sets are the cluster sets that the object names itself.
	Sets func(O) []string
	// Describe says in a few words what people want to know of the object.
	Describe func(O) string
}

// The attributes that all lists have.
const (
	nameAttribute      = "name"
	selectorAttribute  = "label_selector"
	setAttribute       = "cluster_set"
	managedAttribute   = "include_managed"
	deletingAttribute  = "include_deleting"
	generatedAttribute = "include_generated"
)

// listResource lists the objects of one kind.
type listResource[O kube.Object] struct {
	Resource
	kind *Kind[O]
}

// Metadata implements list.ListResource.
func (r *listResource[O]) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.kind.Type
}

// namespaceAttribute is the attribute for the object's namespace; empty where it has none.
func (k *Kind[O]) namespaceAttribute() string {
	if len(k.Keys) < 2 {
		return ""
	}
	return k.Keys[0].Name
}

// ListResourceConfigSchema implements list.ListResource.
func (r *listResource[O]) ListResourceConfigSchema(
	_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse,
) {
	l := r.kind.List
	text := func(description string, validators ...validator.String) schema.StringAttribute {
		return schema.StringAttribute{
			MarkdownDescription: "Only " + l.Plural + " " + description, Optional: true, Validators: validators,
		}
	}
	truth := func(description string) schema.BoolAttribute {
		return schema.BoolAttribute{
			MarkdownDescription: "Whether to list " + l.Plural + " that " + description +
				" If omitted, they are left out.",
			Optional: true,
		}
	}
	attributes := map[string]schema.Attribute{
		nameAttribute: text("of this name. `*` stands for any characters, `?` for one, and `[ab]` "+
			"for one of these, as in `prod-*`.", validPattern()),
		selectorAttribute: text("with these labels, as a label selector in the notation of kubectl, "+
			"such as `env=prod,region in (eu,us)`.", attribute.ValidSelector()),
		managedAttribute: truth("a resource in Terraform manages already, in " +
			"this or another state. The provider tells by its mark and its field manager on the object."),
		deletingAttribute: truth("are being deleted."),
		generatedAttribute: truth("the hub or a controller makes and keeps " +
			"itself: changes by Terraform would be reverted, or would be fought over."),
	}
	switch name := r.kind.namespaceAttribute(); name {
	case "":
	case "managed_cluster":
		attributes[name] = text("of this managed cluster. A pattern as in `name`.", validPattern())
	default:
		attributes[name] = text("in this namespace of the hub. A pattern as in `name`.", validPattern())
	}
	switch validSet := attribute.ValidName("cluster set name"); {
	case l.Cluster != nil:
		attributes[setAttribute] = text("of the clusters that are put in this set by their label.", validSet)
	case l.Sets != nil:
		attributes[setAttribute] = text("with this cluster set.", validSet)
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Lists the " + l.Plural + " of the hub, for `terraform query`. " + l.About,
		Attributes:          attributes,
	}
}

func validPattern() validator.String {
	return attribute.ValidText("a name, or a pattern such as prod-*",
		func(_ fwpath.Path, text string) (summary, detail string) {
			if _, err := path.Match(text, ""); err != nil || text == "" || strings.Contains(text, "/") {
				return "Invalid pattern", fmt.Sprintf("%q is neither a name nor a pattern such as prod-*: names have "+
					"no slashes, and each [ needs its ].", text)
			}
			return "", ""
		})
}

// pageSize is how many objects are read at a time.
const pageSize = 500

// List implements list.ListResource.
func (r *listResource[O]) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	stream.Results = func(push func(list.ListResult) bool) {
		var diags diag.Diagnostics
		filter := attribute.ValuesOf(ctx, req.Config, &diags)
		w := walk[O]{kind: r.kind, List: r.kind.List, req: req, push: push, filter: filter}
		client := r.Hub.Client(&diags)
		if !diags.HasError() {
			w.run(ctx, client, &diags)
		}
		if len(diags) > 0 {
			push(list.ListResult{Diagnostics: diags})
		}
	}
}

// walk is one list on its way through the objects.
type walk[O kube.Object] struct {
	*List[O]
	kind *Kind[O]
	// filter is the configuration of the list.
	filter attribute.Values
	// clusters are those that their label puts in the set; nil where they do not matter.
	clusters map[string]bool
	req      list.ListRequest
	push     func(list.ListResult) bool

	listed                       int64
	managed, deleting, generated int
}

func (w *walk[O]) run(ctx context.Context, client *kube.Client, diags *diag.Diagnostics) {
	if set := w.filter.Text(setAttribute); set != "" && w.Cluster != nil {
		w.clusters = map[string]bool{}
		options := kube.ListOptions{LabelSelector: cluster.ClusterSetLabel + "=" + set}
		err := client.Pages(ctx, &clusterv1.ManagedClusterList{}, options, pageSize, func(object kube.Object) bool {
			w.clusters[object.GetName()] = true
			return true
		})
		if err != nil {
			hub.AddAPIError(diags, client, "list the managed clusters of set "+set, err)
			return
		}
	}
	options := w.Within
	options.LabelSelector = w.filter.Text(selectorAttribute)
	namespace := w.filter.Text(w.kind.namespaceAttribute())
	if namespace != "" && !strings.ContainsAny(namespace, `*?[\`) {
		options.Namespace = namespace
	}
	take := func(object kube.Object) bool { return w.take(ctx, object) }
	err := client.Pages(ctx, w.Objects, options, pageSize, take)
	switch {
	case w.Needs != "" && kube.IsKindNotServed(err):
		diags.AddWarning("No "+w.Plural+" are listed", fmt.Sprintf(
			"The hub %s does not serve the kind. %s", client.Host(), w.Needs))
	case err != nil:
		hub.AddAPIError(diags, client, "list the "+w.Plural, err)
	case w.listed == 0 && w.managed+w.deleting+w.generated > 0:
		diags.AddWarning("No "+w.Plural+" are listed", w.leftOut())
	}
}

// take lists one object, or leaves it out. It returns false when no more are wanted.
func (w *walk[O]) take(ctx context.Context, found kube.Object) bool {
	object, ok := found.(O)
	if !ok || !w.asked(object) {
		return true
	}
	generated := len(object.GetOwnerReferences()) > 0
	if w.Generated != nil {
		generated = w.Generated(object)
	}
	managed := OwnerMark(object) != "" || !FieldsOf(object, hub.FieldManager).None()
	if w.Managed != nil {
		managed = w.Managed(object)
	}
	switch {
	case generated && !w.filter.Bool(generatedAttribute):
		w.generated++
		return true
	case object.GetDeletionTimestamp() != nil && !w.filter.Bool(deletingAttribute):
		w.deleting++
		return true
	case managed && !w.filter.Bool(managedAttribute):
		w.managed++
		return true
	}
	w.listed++
	return w.push(w.result(ctx, object)) && w.listed < w.req.Limit
}

// asked reports whether the filters let the object through.
func (w *walk[O]) asked(object O) bool {
	matches := func(attribute, name string) bool {
		pattern := w.filter.Text(attribute)
		fits, _ := path.Match(pattern, name)
		return pattern == "" || fits
	}
	set := w.filter.Text(setAttribute)
	switch {
	case w.Is != nil && !w.Is(object), !matches(nameAttribute, object.GetName()),
		!matches(w.kind.namespaceAttribute(), object.GetNamespace()):
		return false
	case set == "":
		return true
	case w.Cluster != nil:
		return w.clusters[w.Cluster(object)]
	}
	return slices.Contains(w.Sets(object), set)
}

// result is what Terraform gets of an object.
func (w *walk[O]) result(ctx context.Context, object O) list.ListResult {
	result := w.req.NewListResult(ctx)
	result.DisplayName = object.GetName()
	if w.kind.namespaceAttribute() != "" {
		result.DisplayName = object.GetNamespace() + "/" + result.DisplayName
	}
	if w.Describe != nil {
		if text := w.Describe(object); text != "" {
			result.DisplayName += " (" + text + ")"
		}
	}
	state, err := w.kind.imported(object, w.Without...)
	if err != nil {
		return list.ListResult{Diagnostics: diag.Diagnostics{diag.NewWarningDiagnostic("Left out: "+result.DisplayName,
			fmt.Sprintf("The object on the hub can't become a resource: %s. Correct it with kubectl to have it "+
				"listed.", err))}}
	}
	result.Diagnostics.Append(result.Identity.Set(ctx, state.identity())...)
	if w.req.IncludeResource {
		result.Diagnostics.Append(result.Resource.Set(ctx, state.stored())...)
	}
	return result
}

// leftOut tells why nothing is listed although there is something.
func (w *walk[O]) leftOut() string {
	var reasons []string
	for _, r := range []struct {
		count     int
		what, get string
	}{
		{w.managed, "managed in Terraform already", managedAttribute},
		{w.generated, "made and kept by the hub or a controller", generatedAttribute},
		{w.deleting, "being deleted", deletingAttribute},
	} {
		if r.count > 0 {
			reasons = append(reasons, fmt.Sprintf("%d %s (%s = true lists them)", r.count, r.what, r.get))
		}
	}
	return "The hub has some, which are left out: " + strings.Join(reasons, ", ") + "."
}

// Count says how many: "1 object", "3 objects".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// SetsOfCluster is the set in which the cluster's label puts it.
func SetsOfCluster(object *clusterv1.ManagedCluster) []string {
	return []string{object.Labels[cluster.ClusterSetLabel]}
}

// DescribeCluster tells the cluster's set and how far it has come.
func DescribeCluster(object *clusterv1.ManagedCluster) string {
	text := "available"
	switch conditions := object.Status.Conditions; {
	case !object.Spec.AcceptsClient():
		text = "not accepted"
	case !meta.IsStatusConditionTrue(conditions, cluster.ConditionJoined):
		text = "not joined"
	case !meta.IsStatusConditionTrue(conditions, cluster.ConditionAvailable):
		text = "not available"
	}
	if set := object.Labels[cluster.ClusterSetLabel]; set != "" {
		text = "set " + set + ", " + text
	}
	return text
}

package manifestwork

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

type observedWorkModel struct {
	ManagedCluster types.String               `tfsdk:"managed_cluster"`
	Name           types.String               `tfsdk:"name"`
	Labels         types.Map                  `tfsdk:"labels"`
	Manifests      types.List                 `tfsdk:"manifests"`
	Conditions     []attribute.ConditionModel `tfsdk:"conditions"`
	Feedback       types.List                 `tfsdk:"feedback"`
	Resources      []observedResourceModel    `tfsdk:"resources"`
}

// observedResourceModel is what the agent says of one object of a work.
type observedResourceModel struct {
	Group      types.String               `tfsdk:"group"`
	Version    types.String               `tfsdk:"version"`
	Kind       types.String               `tfsdk:"kind"`
	Resource   types.String               `tfsdk:"resource"`
	Namespace  types.String               `tfsdk:"namespace"`
	Name       types.String               `tfsdk:"name"`
	Conditions []attribute.ConditionModel `tfsdk:"conditions"`
}

// workData is the data source muster_manifest_work.
func workData() *crud.Data[*workv1.ManifestWork] {
	return &crud.Data[*workv1.ManifestWork]{
		Description: "The present state of one manifest work, of any origin: its objects, " +
			"and what the cluster's agent reports of them.\n\n" +
			"Terraform takes a data source with a sensitive attribute, as `manifests` is, for sensitive as a whole. " +
			"An output has to name other attributes, such as `resources`.",
		Attributes: observedAttributes,
		Model:      observedWork,
		Others:     "kubectl get manifestworks -n NAMESPACE",
	}
}

func observedAttributes() map[string]schema.Attribute {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{MarkdownDescription: description, Computed: true}
	}
	object := func(more string, attribute schema.Attribute) schema.NestedAttributeObject {
		return schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"group":     text("API group of the object; empty for the core group."),
			"version":   text("Version of its API."),
			"kind":      text("Its kind."),
			"namespace": text("Its namespace; empty if its kind has none."),
			"name":      text("Its name."),
			more:        attribute,
		}}
	}
	resources := object("conditions", attribute.ConditionsAttribute("Conditions of the object: `Applied`, "+
		"`Available`, `StatusFeedbackSynced`, and those of rules."))
	resources.Attributes["resource"] = text("Plural name of its kind; empty while the cluster does not know the kind.")
	return map[string]schema.Attribute{
		"labels": schema.MapAttribute{MarkdownDescription: "Labels of the work itself.", Computed: true, ElementType: types.StringType},
		"manifests": schema.ListAttribute{
			MarkdownDescription: "The work's objects as YAML, except those that `muster_manifest_work` wrote from " +
				"`manifests_wo`. Secrets among them are read in full, and are then in the state.",
			Computed: true, Sensitive: true, ElementType: types.StringType,
		},
		"conditions": attribute.ConditionsAttribute("Conditions of the work."),
		"feedback": schema.ListNestedAttribute{
			MarkdownDescription: "Reported values of the live objects. Objects without reported values are not listed.",
			Computed:            true,
			NestedObject: object("values", schema.MapAttribute{
				MarkdownDescription: "The values as text, by the names that the feedback rules give them.", Computed: true, ElementType: types.StringType,
			}),
		},
		"resources": schema.ListNestedAttribute{
			MarkdownDescription: "What the agent reports of each object, in the order of the manifests.",
			Computed:            true,
			NestedObject:        resources,
		},
	}
}

func observedWork(object *workv1.ManifestWork) (any, error) {
	labels := object.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	hide := liveContent(object).Masker(workload.None()).Text
	m := observedWorkModel{
		ManagedCluster: types.StringValue(object.Namespace),
		Name:           types.StringValue(object.Name),
		Labels:         attribute.StringMapValue(labels),
		Conditions:     attribute.ConditionModels(hidden(object.Status.Conditions, hide)),
		Feedback:       feedbackValue(object, hide),
		Resources:      []observedResourceModel{},
	}
	for _, x := range object.Status.ResourceStatus.Manifests {
		m.Resources = append(m.Resources, observedResourceModel{
			Group:      types.StringValue(x.ResourceMeta.Group),
			Version:    types.StringValue(x.ResourceMeta.Version),
			Kind:       types.StringValue(x.ResourceMeta.Kind),
			Resource:   types.StringValue(x.ResourceMeta.Resource),
			Namespace:  types.StringValue(x.ResourceMeta.Namespace),
			Name:       types.StringValue(x.ResourceMeta.Name),
			Conditions: attribute.ConditionModels(hidden(x.Conditions, hide)),
		})
	}
	open, _, err := liveContent(object).Read(nil)
	if err != nil {
		return m, err
	}
	m.Manifests, err = workload.Texts(open)
	return m, err
}

// hidden are conditions without what is not to be shown.
func hidden(conditions []metav1.Condition, hide func(string) string) []metav1.Condition {
	conditions = slices.Clone(conditions)
	for i := range conditions {
		conditions[i].Message = hide(conditions[i].Message)
	}
	return conditions
}

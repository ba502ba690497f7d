// Package namespace has the resource muster_namespace: the namespaces on the hub
// that hold bindings, placements and replica sets.
package namespace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

type (
	namespace = *corev1.Namespace
	change    = crud.Change[namespace]
)

// Namespace is muster_namespace.
func Namespace() crud.Declared {
	return &crud.Kind[namespace]{
		Type: "namespace", Noun: "namespace", Empty: &corev1.Namespace{},
		Description: "A namespace on the hub, for cluster set bindings, placements and manifest work replica sets. " +
			"Refer to its `name` in these resources, so that Terraform creates it before them and destroys it after " +
			"them.\n\n" +
			"The namespaces of managed clusters, of Kubernetes and of the hub itself can't be managed with it: a " +
			"managed cluster's namespace comes with `muster_managed_cluster`.\n\n" +
			"An existing namespace that was made without Terraform is an error unless `adopt` is set or it is " +
			"imported, even if its labels are as configured, because destroying the namespace deletes what is in " +
			"it. For a namespace in a managed cluster, use `muster_manifest_work`, or `managed_namespaces` of " +
			"`muster_managed_cluster_set`.",
		Keys: []crud.Key{{
			Name: "name",
			Description: "Name of the namespace: a DNS label of at most 63 characters. Changing it replaces the " +
				"namespace, with all that is in it.",
			Valid: stringvalidator.All(attribute.ValidName("namespace"), notReserved()),
		}},
		Table: attribute.Table[namespace]{
			attribute.LabelsField[namespace]("Labels. Those that others set, such " +
				"as `" + corev1.LabelMetadataName + "`, are left alone.").
				Reserved(reservedLabel),
			attribute.AnnotationsField[namespace]("Annotations. Those that others set are left alone."),
			attribute.Local[namespace]("force_destroy", schema.BoolAttribute{
				MarkdownDescription: "Whether destroying the namespace may delete the placements, cluster set " +
					"bindings, replica sets, works and scores that are still in it. If omitted or `false`, these " +
					"are an error that lists them. The value that counts is the one of the last apply.",
				Optional: true,
			}),
		},
		Timeouts: crud.Timeouts{Delete: "deleting the namespace with what is in it"},
		Hooks: crud.Hooks[namespace]{
			Refuse:       refused,
			Own:          own,
			Reading:      warnOfDeletion,
			BeforeDelete: mayGo,
			Late: func(ctx context.Context, c *change) (summary, detail string) {
				return fmt.Sprintf("Namespace %q is not gone yet", c.Keys[0]),
					fmt.Sprintf("It was still on the hub %s after its deletion was asked for. What it waits for:\n%s",
						c.Timeout, describeHeld(ctx, c.Client, c.Object))
			},
		},
		List: &crud.List[namespace]{
			Plural: "namespaces", Objects: &corev1.NamespaceList{},
			About: "Those of managed clusters, of Kubernetes and of the hub itself can't be managed and are never " +
				"listed.",
			Is: func(object namespace) bool { return refused(object) == nil },
		},
	}
}

// own makes a namespace that nobody has marked somebody's: deleting it later would delete
// what they have in it.
func own(_ attribute.Values, o *crud.Owned) {
	o.Write.Further = func(live kube.Object) []crud.Difference {
		if crud.OwnerMark(live) != "" {
			return nil
		}
		return []crud.Difference{{Path: "what others have in it", There: true}}
	}
}

func warnOfDeletion(_ context.Context, c *change) {
	if live := c.Object; live.DeletionTimestamp != nil {
		c.Diagnostics.AddWarning(fmt.Sprintf("Being deleted: namespace %q", live.Name),
			"Somebody has asked for the deletion of the namespace, so nothing "+
				"can be created in it any more. Apply again when it is gone, and Terraform creates it again.\n"+
				hub.DescribeDeletion(live, time.Now()))
	}
}

// reservedLabel says why a label can't be set by configurations.
func reservedLabel(key string) string {
	switch key {
	case corev1.LabelMetadataName:
		return "Kubernetes sets it to the namespace's name"
	case cluster.NameLabel:
		return "it hands the namespace over to a managed cluster's agent"
	}
	return ""
}

// Which namespaces are nobody's to manage, and what is in those that are.

// reservedName says why a namespace can't be managed by a configuration, in a
// sentence without its end. It is nil when it can.
func reservedName(name string) error {
	switch {
	case name == corev1.NamespaceDefault:
		return fmt.Errorf("the namespace %q is there on every server and is everybody's: use it as it is, or choose "+
			"another name", name)
	case strings.HasPrefix(name, "kube-"):
		return fmt.Errorf("namespaces with the prefix kube- are Kubernetes' own, and %q has it: choose another "+
			"name", name)
	case name == cluster.Namespace, strings.HasPrefix(name, cluster.Namespace+"-"):
		return fmt.Errorf("namespaces with the prefix %s are those of the hub's and the agents' own components, and "+
			"%q has it: choose another name", cluster.Namespace, name)
	}
	return nil
}

// refused says why an existing namespace can't be managed. It is nil when it can.
func refused(live *corev1.Namespace) error {
	if err := reservedName(live.Name); err != nil {
		return err
	}
	if of, ok := live.Labels[cluster.NameLabel]; ok {
		return fmt.Errorf("the namespace %q on the hub belongs to the managed cluster %q: the hub makes it, and "+
			"deleting it would delete the cluster's works; choose another name, or manage the cluster with "+
			"muster_managed_cluster", live.Name, of)
	}
	return nil
}

func notReserved() validator.String {
	return attribute.ValidText("not a namespace of Kubernetes or of the hub "+
		"itself", func(_ path.Path, name string) (summary, detail string) {
		if err := reservedName(name); err != nil {
			return "Reserved namespace", attribute.Capitalize(err.Error()) + "."
		}
		return "", ""
	})
}

// contentKinds are the lists of what configurations keep in a namespace of the hub.
func contentKinds() map[string]runtime.Object {
	return map[string]runtime.Object{
		"placement":                 &clusterv1beta1.PlacementList{},
		"cluster set binding":       &clusterv1beta2.ManagedClusterSetBindingList{},
		"placement score":           &clusterv1alpha1.AddOnPlacementScoreList{},
		"manifest work":             &workv1.ManifestWorkList{},
		"manifest work replica set": &workv1alpha1.ManifestWorkReplicaSetList{},
	}
}

// shownContents is how many objects a message lists.
const shownContents = 10

// contents describes the objects that configurations keep in a namespace. Kinds
// that the hub has not, or does not show to this identity, are left out.
func contents(ctx context.Context, client *kube.Client, namespace string) ([]string, error) {
	var found []string
	for kind, list := range contentKinds() {
		err := client.List(ctx, list, kube.ListOptions{Namespace: namespace})
		if apierrors.IsForbidden(err) || kube.IsKindNotServed(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			object, ok := item.(kube.Object)
			if !ok {
				return nil
			}
			text := fmt.Sprintf("%s %q", kind, object.GetName())
			if finalizers := object.GetFinalizers(); len(finalizers) > 0 {
				text += ", with the finalizers " + strings.Join(finalizers, ", ")
			}
			found = append(found, text)
			return nil
		})
	}
	slices.Sort(found)
	return text.First(found, shownContents), nil
}

// mayGo refuses to delete a namespace that others still use.
func mayGo(ctx context.Context, c *change) bool {
	name, live, doing := c.Keys[0], &corev1.Namespace{}, "delete "+c.What
	found, ok := c.Find(ctx, live, "", name, doing, c.Diagnostics)
	if !ok || !found {
		return ok
	}
	if err := refused(live); err != nil {
		c.Diagnostics.AddError("Cannot "+doing, attribute.Capitalize(err.Error())+". To leave it alone, remove the "+
			"resource with terraform state rm.")
		return false
	}
	owned := crud.ClaimOf(ctx, c.Private, c.Diagnostics).Holds(live)
	if c.Prior.Bool("force_destroy") || live.DeletionTimestamp != nil || !owned {
		return true // The deletion leaves what is another's.
	}
	left, err := contents(ctx, c.Client, name)
	if err != nil {
		hub.AddAPIError(c.Diagnostics, c.Client, doing, err)
		return false
	}
	if len(left) == 0 {
		return true
	}
	c.Diagnostics.AddError(fmt.Sprintf("Namespace %q is not empty", name),
		fmt.Sprintf("Deleting it would delete what is in it:\n"+
			"  %s\n\n"+
			"Remove that first. If it is in this configuration, let it name its namespace by this resource's "+
			"attribute name, so that Terraform destroys it before. To delete the namespace with all that is in it, "+
			"set force_destroy = true, apply, and destroy again.", strings.Join(left, "\n  ")))
	return false
}

// describeHeld adds what is left in the namespace. It asks the hub within a few
// seconds, and does without an answer.
func describeHeld(ctx context.Context, client *kube.Client, object *corev1.Namespace) string {
	ctx, cancel := context.WithTimeout(ctx, hub.ReadBudget)
	defer cancel()
	text := hub.DescribeDeletion(object, time.Now())
	if left, err := contents(ctx, client, object.Name); err == nil && len(left) > 0 {
		text += "\n\nStill in it:\n  " + strings.Join(left, "\n  ")
	}
	return text + fmt.Sprintf("\n\nRemove what holds these objects, then apply again. To list everything that is "+
		"left:\n"+
		"  kubectl api-resources --verbs=list --namespaced -o name | xargs -n 1 kubectl get --show-kind "+
		"--ignore-not-found -n %s", object.Name)
}

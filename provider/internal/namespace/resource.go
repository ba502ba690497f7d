package namespace

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
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
			Warn:         warnOfDeletion,
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

func warnOfDeletion(_ context.Context, _ *crud.Resource, _ attribute.Values, live namespace, diags *diag.Diagnostics) {
	if live.DeletionTimestamp != nil {
		diags.AddWarning(fmt.Sprintf("Being deleted: namespace %q", live.Name),
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

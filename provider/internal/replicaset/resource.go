package replicaset

import (
	"context"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// Set is the kind of muster_manifest_work_replica_set.
func Set() crud.Declared {
	return &crud.Kind[replicaSetModel, *workv1alpha1.ManifestWorkReplicaSet]{
		Type: "manifest_work_replica_set", Noun: "manifest work replica set",
		Description: "The same Kubernetes objects for every cluster that placements select: " +
			"the hub keeps a manifest work in each of them, creates and deletes works as the selection changes, " +
			"and rolls out changes by the given strategy.\n\n" +
			"The hub's feature gate `ManifestWorkReplicaSet` has to be on, which is the default on a muster hub. " +
			"Planning and applying need no managed cluster. To wait until a change has arrived everywhere, set `wait`.",
		Keys: []crud.Key{
			{
				Name: "namespace", Valid: attribute.ValidName("namespace"),
				Description: "Namespace on the hub, that of the placements. It has to exist. Changing it replaces " +
					"the replica set.",
			},
			{
				Name: "name", Valid: replicaSetNameValidator{},
				Description: "Name of the replica set, without dots. `<namespace>.<name>` becomes a label of the " +
					"works, so both together have at most 63 characters. The names of the works begin with it. " +
					"Changing it replaces the replica set.",
			},
		},
		Empty: &workv1alpha1.ManifestWorkReplicaSet{},
		Model: &crud.Conversion[replicaSetModel, *workv1alpha1.ManifestWorkReplicaSet]{
			Attributes: resourceAttributes,
			Object:     (*replicaSetModel).object,
			Observe:    (*replicaSetModel).observe,
			Import:     importReplicaSet,
			Unwanted:   (*replicaSetModel).unwanted,
			Unwritten:  local,
		},
		Timeouts: crud.Timeouts{
			Create: "creating, with `wait`,",
			Update: "changing, with `wait`,",
			Delete: "deleting the replica set, with the policy `Foreground` its works too,",
		},
		List: &crud.List[*workv1alpha1.ManifestWorkReplicaSet]{
			Plural: "manifest work replica sets", Objects: &workv1alpha1.ManifestWorkReplicaSetList{},
			Describe: func(object *workv1alpha1.ManifestWorkReplicaSet) string {
				return crud.Count(len(object.Spec.ManifestWorkTemplate.Workload.Manifests), "object")
			},
		},
		Hooks: crud.Hooks[replicaSetModel, *workv1alpha1.ManifestWorkReplicaSet]{
			Validate:   validate,
			Plan:       plan,
			Own:        func(_ *replicaSetModel, o *crud.Owned) { o.Discreet = true }, // the manifests may hold secrets
			Mask:       mask,
			Complete:   complete,
			Reading:    read,
			AfterWrite: noteWrite,
			Follow:     follow,
			Going: func(c *change) *crud.Going {
				return &crud.Going{Works: func(w *workv1.ManifestWork) bool {
					return w.Labels[work.ReplicaSetLabel] == replicaSetLabel(c.Keys[0], c.Keys[1])
				}}
			},
			Late: func(ctx context.Context, c *change) (summary, detail string) {
				return "Not removed yet: " + c.What, describeReplicaSetDeletion(ctx, c.Client, c.Object, c.Timeout)
			},
		},
	}
}

type change = crud.Change[replicaSetModel, *workv1alpha1.ManifestWorkReplicaSet]

// resourceAttributes are those of the resource, without its names.
func resourceAttributes() map[string]schema.Attribute {
	attributes := replicaSetAttributes()
	maps.Copy(attributes, replicaSetStatusAttributes())
	maps.Copy(attributes, workload.Attributes())
	attributes["generation"] = workload.Generation("replica set")
	attributes["wait"] = waitAttribute().Schema()
	attributes["ready"] = attribute.Ready("Whether what `wait` asks for was met; null without `wait`.")
	return attributes
}

// replicaSetAttributes are those of the replica set itself.
func replicaSetAttributes() map[string]schema.Attribute {
	attributes := manifestwork.OptionAttributes("What happens to a work's objects when it is deleted. " +
		"If omitted, they are deleted with it. " +
		"A work that the hub deletes by `ttl_seconds_after_finished` is re-created by the replica set.")
	maps.Copy(attributes, map[string]schema.Attribute{
		"labels":      attribute.Labels("Labels of the replica set. A work gets them too, the next time its manifests are rolled out.", nil),
		"annotations": attribute.Annotations("Annotations of the replica set. The works don't get them."),
		"placements":  placementRefsAttribute(),
		"cascade_deletion_policy": schema.StringAttribute{
			MarkdownDescription: "How the replica set is deleted. The works are deleted either way. `Background`: " +
				"the replica set is gone at once. `Foreground`: it stays, and `terraform destroy` waits, until they " +
				"are gone. Defaults to `Background`.",
			Optional: true, Computed: true, Default: stringdefault.StaticString(string(workv1alpha1.CascadeDeletionPolicyBackground)),
			Validators: attribute.OneOf(workv1alpha1.CascadeDeletionPolicyBackground, workv1alpha1.CascadeDeletionPolicyForeground),
		},
	})
	return attributes
}

// complete adds the objects, with those that are in the configuration alone.
func complete(
	ctx context.Context, m *replicaSetModel, config tfsdk.Config, object *workv1alpha1.ManifestWorkReplicaSet,
	diags *diag.Diagnostics,
) {
	m.Put(ctx, config, object, &object.Spec.ManifestWorkTemplate.Workload, diags)
}

// read takes the mark of the last write, and warns of what has failed since.
func read(ctx context.Context, c *change) {
	reading, cancel := context.WithTimeout(ctx, hub.ReadBudget)
	defer cancel()
	c.Prior.warnOfFailures(reading, c.Hub.PlanClient(), c.Object, c.Diagnostics)
	c.Prior.mark = noted(ctx, c.Private, c.Diagnostics)
}

// noteWrite notes what the hub has reported up to the write, for this wait and later ones.
func noteWrite(ctx context.Context, c *change) bool {
	written, err := markOf(c.Object)
	if err != nil {
		c.Diagnostics.AddError("Cannot record the state of the replica set", err.Error())
		return false
	}
	switch {
	case c.Prior == nil:
		c.Plan.mark = written
	case sameWorks(c.Prior, c.Plan):
		c.Plan.mark = noted(ctx, c.Private, c.Diagnostics)
	default:
		c.Plan.mark = written
		c.Diagnostics.Append(note(ctx, c.NewPrivate, written)...)
	}
	return true
}

// written takes over what was only known after the write, and returns what does
// so after the wait. What the plan has shown stays as it was.
func (m *replicaSetModel) written(object *workv1alpha1.ManifestWorkReplicaSet) (report func()) {
	if m.Generation.IsUnknown() {
		m.Generation = types.Int64Value(object.Generation)
	}
	all, rolledOut := m.Conditions.IsUnknown(), m.RolledOut.IsUnknown()
	report = func() {
		switch status := replicaSetStatus(object, m.mark, liveContent(object).Masker(m.Content).Text); {
		case all:
			m.replicaSetStatusModel = status
		case rolledOut:
			m.RolledOut = status.RolledOut
		}
	}
	report()
	return report
}

// unwanted are the options that somebody has added to the works.
func (m *replicaSetModel) unwanted(live *workv1alpha1.ManifestWorkReplicaSet) [][]string {
	wanted := m.object()
	return manifestwork.UnwantedOptions(&wanted.Spec.ManifestWorkTemplate, &live.Spec.ManifestWorkTemplate,
		"spec", "manifestWorkTemplate")
}

// mask hides what is secret, and says what to do about a hub that refuses all replica
// sets.
func mask(ctx context.Context, of, config crud.Source, diags *diag.Diagnostics) {
	workload.Mask(ctx, of, config, diags)
	for i, d := range *diags {
		if strings.Contains(d.Detail(), work.RefusedReplicaSet) {
			(*diags)[i] = diag.NewErrorDiagnostic(d.Summary(),
				"The hub makes no works of replica sets. "+replicaSetGateRemedy())
		}
	}
}

// follow is what comes after the replica set was written.
func follow(_ context.Context, c *change) crud.Follow {
	m := c.Plan
	f := crud.Follow{Attribute: waitAttribute(), Ready: &m.Ready, Report: m.written(c.Object)}
	if m.Wait != nil {
		f.Wait = m.Wait.wait(c.Client, c.Object, m.mark, c.Timeout).Run
	}
	return f
}

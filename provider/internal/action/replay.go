package action

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

var _ action.ActionWithConfigure = (*replayWork)(nil)

type replayWork struct{ onHub }

type replayWorkModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
	LiftComplete   types.Bool   `tfsdk:"lift_complete"`
	Timeout        types.String `tfsdk:"timeout"`
}

// NewReplayWork is muster_replay_work.
func NewReplayWork() action.Action { return &replayWork{onHub{name: "replay_work"}} }

func (a *replayWork) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Has the agent apply all manifests of a manifest work once more, now, and waits for its report. The agent forgets what it knows of the objects, and any pause after a quarrel with another controller or a lack of rights. " +
			"It fails when the manifests still can't be applied, with the reasons.\n\n" +
			"The action puts the annotation `" + work.ReplayAnnotation + "` on the ManifestWork, which the agent removes when it has reported. " +
			"Agents of Open Cluster Management apply the work then as well, and do not answer: the action says so after a while, takes the annotation back and fails.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": clusterAttribute("Name of the managed cluster."),
			"name": schema.StringAttribute{
				MarkdownDescription: "Name of the manifest work.",
				Required:            true,
				Validators:          []validator.String{attribute.ValidObjectName("work name")},
			},
			"lift_complete": schema.BoolAttribute{
				MarkdownDescription: "Whether to apply also a work that is `Complete`, whose objects the agent otherwise leaves alone. As long as its condition rules say so, it is complete again afterwards. " +
					"A finished Job that still exists stays finished; delete it in the cluster first.",
				Optional: true,
			},
			"timeout": timeoutAttribute("the agent", defaultAnswer),
		},
	}
}

func (a *replayWork) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var config replayWorkModel
	a.invoke(ctx, req, resp, &config, func(client *kube.Client, report *reporter) (string, error) {
		name, of := config.Name.ValueString(), config.ManagedCluster.ValueString()
		return quoted("replay the manifest work", of+"/"+name), replay(ctx, client, replayOptions{
			Cluster: of, Name: name, LiftComplete: config.LiftComplete.ValueBool(), Timeout: durationOf(config.Timeout, defaultAnswer),
		}, report)
	})
}

// replayOptions say which work is applied once more.
type replayOptions struct {
	Cluster, Name string
	// LiftComplete also applies a work that is complete, and therefore left alone.
	LiftComplete bool
	// Timeout is how long the agent may take.
	Timeout time.Duration
}

// replay has the agent apply all manifests of a work once more, and waits for its
// report.
func replay(ctx context.Context, client *kube.Client, o replayOptions, report *reporter) error {
	r := &replaying{replayOptions: o, client: client, reporter: report}
	object, err := r.find(ctx)
	if err != nil {
		return err
	}
	if object.DeletionTimestamp != nil {
		return refuse(fmt.Sprintf("The work %q of managed cluster %q is being deleted", o.Name, o.Cluster), "Its objects are being removed from the cluster, so that none is applied.\n%s", hub.DescribeDeletion(object, r.Clock.Now()))
	}
	if complete(object) {
		if err := r.lift(ctx, object); err != nil {
			return err
		}
	}
	asked, err := ask(ctx, client, object, work.ReplayAnnotation, r.Clock.Now())
	if err != nil {
		return err
	}
	if asked {
		r.say("The agent of %s is asked to apply the work %s once more.", o.Cluster, o.Name)
	} else {
		r.say("Somebody has asked the agent of %s to apply the work %s once more already.", o.Cluster, o.Name)
	}
	r.reportCluster(ctx)
	waiting, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	err = r.looking(waiting, r.look, func(ctx context.Context) error {
		return client.Wait(ctx, object, o.Cluster, o.Name, func(exists bool) (bool, error) {
			if !exists || object.DeletionTimestamp != nil {
				return false, refuse(fmt.Sprintf("The work %q of managed cluster %q is being deleted", o.Name, o.Cluster), "Somebody deleted it while it was to be applied once more.")
			}
			return object.Annotations[work.ReplayAnnotation] == "", nil
		})
	})
	if err == nil {
		return r.outcome(object)
	}
	withdraw(ctx, client, object, work.ReplayAnnotation)
	if hub.IsTimeout(err) && ctx.Err() == nil {
		return refuse(fmt.Sprintf("The agent has not answered for the work %q of managed cluster %q within %s", o.Name, o.Cluster, o.Timeout),
			"The request was taken back. Either the agent does not run or can't reach the hub, or it does not know the request. "+
				"Agents of Open Cluster Management don't answer, and apply each work at every change and every few minutes: what they last said of it:\n%s",
			hub.DescribeConditions(object.Status.Conditions, r.Clock.Now()))
	}
	return interrupted(ctx, err, fmt.Sprintf("The request to apply the work %q once more was taken back. The agent may have done so in the meantime.", o.Name))
}

type replaying struct {
	replayOptions
	*reporter
	client *kube.Client
}

// find reads the work, which has to exist.
func (r *replaying) find(ctx context.Context) (*workv1.ManifestWork, error) {
	object := &workv1.ManifestWork{}
	err := r.client.Get(ctx, object, r.Cluster, r.Name)
	if !kube.IsNotFound(err, r.Name) {
		return object, err
	}
	if _, err := find(ctx, r.client, r.Cluster); err != nil {
		return nil, err
	}
	all, names := &workv1.ManifestWorkList{}, []string{}
	if r.client.List(ctx, all, kube.ListOptions{Namespace: r.Cluster}) == nil {
		for i := range all.Items {
			names = append(names, all.Items[i].Name)
		}
	}
	advice := "The cluster has none at all."
	if len(names) > 0 {
		advice = orElse(r.Name, "work", names)
	}
	return nil, refuse(fmt.Sprintf("There is no work %q of managed cluster %q", r.Name, r.Cluster), "The hub %s has no ManifestWork of this name in the cluster's namespace. %s", r.client.Host(), advice)
}

func complete(object *workv1.ManifestWork) bool {
	return meta.IsStatusConditionTrue(object.Status.Conditions, work.ConditionComplete)
}

// lift removes the condition by which the agent leaves a complete work alone.
func (r *replaying) lift(ctx context.Context, object *workv1.ManifestWork) error {
	if !r.LiftComplete {
		return refuse(fmt.Sprintf("The work %q of managed cluster %q is complete", r.Name, r.Cluster),
			"A condition rule says that it has done what it is for, so the agent leaves its objects alone, and would apply nothing. "+
				"To apply it all the same, set lift_complete. A finished Job that still exists stays finished: delete it in the cluster first to run it again.")
	}
	object = object.DeepCopy()
	meta.RemoveStatusCondition(&object.Status.Conditions, work.ConditionComplete)
	if err := r.client.UpdateSubresource(ctx, object, "status", requestManager); err != nil {
		return err
	}
	r.say("The work %s is no longer marked as complete.", r.Name)
	return nil
}

// reportCluster says when the agent can't answer at present.
func (r *replaying) reportCluster(ctx context.Context) {
	object := &clusterv1.ManagedCluster{}
	if r.client.Get(ctx, object, "", r.Cluster) != nil {
		return
	}
	if s := standingOf(object, false); !s.reached {
		r.say("%s %s. Its agent answers when that has changed.", r.Cluster, s.text)
	}
}

func (r *replaying) look(context.Context) {
	if r.Clock.Now().Sub(r.begun) >= patience {
		r.say("The agent of %s has not answered. Agents of Open Cluster Management, and muster's of earlier versions, do not know the request.", r.Cluster)
	}
}

// outcome says what the agent reported.
func (r *replaying) outcome(object *workv1.ManifestWork) error {
	applied := meta.FindStatusCondition(object.Status.Conditions, work.ConditionApplied)
	if applied != nil && applied.Status == metav1.ConditionTrue && applied.ObservedGeneration == object.Generation {
		r.say("The agent has applied the work %s once more: %s", r.Name, plural(len(object.Spec.Workload.Manifests), "manifest")+".")
		return nil
	}
	return refuse(fmt.Sprintf("The work %q of managed cluster %q could not be applied", r.Name, r.Cluster), "The agent has tried once more, and goes on trying. It says:\n%s", lines(failures(object, r.Clock.Now())...))
}

// failures are the conditions of a work, and what went wrong with its manifests.
func failures(object *workv1.ManifestWork, now time.Time) []string {
	reported := []string{hub.DescribeConditions(object.Status.Conditions, now)}
	for _, m := range object.Status.ResourceStatus.Manifests {
		if c := meta.FindStatusCondition(m.Conditions, work.ConditionApplied); c != nil && c.Status != metav1.ConditionTrue {
			reported = append(reported, fmt.Sprintf("  %s %s: %s", m.ResourceMeta.Kind, strings.TrimPrefix(m.ResourceMeta.Namespace+"/"+m.ResourceMeta.Name, "/"), c.Message))
		}
	}
	return append(reported[:min(len(reported), 6)], fmt.Sprintf("Next:\n  kubectl describe manifestwork -n %s %s", object.Namespace, object.Name))
}

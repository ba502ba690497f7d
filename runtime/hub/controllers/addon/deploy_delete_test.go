package addon_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	addoncontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/deploy"
)

const (
	finalizer     = "addon.open-cluster-management.io/addon-pre-delete"
	hookCompleted = "HookManifestCompleted"
)

// hooked is a fleet with an add-on in the cluster "a" that has a hook and is deployed.
func hooked(t *testing.T, all ...string) (*fleet, *addonv1alpha1.AddOnTemplate) {
	t.Helper()
	f := newFleet(t, "a")
	template := f.templated("a", append(all, preDelete)...)
	f.settle()
	f.apply("a", true)
	f.settle()
	if got := f.in("a").Finalizers; !slices.Equal(got, []string{finalizer}) {
		t.Fatalf("the finalizers are %v", got)
	}
	f.mustHaveWorks("a", "addon-A-deploy-0")
	if n := len(f.worksIn("a")["addon-A-deploy-0"].Spec.Workload.Manifests); n != len(all) {
		t.Errorf("the hook is deployed: %d manifests", n)
	}
	return f, template
}

// remove has the add-on deleted in the cluster "a", and looked at.
func (f *fleet) remove() {
	f.Helper()
	a := f.in("a")
	f.Must(f.Delete(context.Background(), a))
	f.Reconcile(f.deploying, keyOf(a))
}

// look has the add-on looked at in the cluster "a".
func (f *fleet) look() {
	f.Helper()
	f.Reconcile(f.deploying, types.NamespacedName{Namespace: f.full("a"), Name: f.name})
}

func (f *fleet) mustBeGone() {
	f.Helper()
	a := &addonv1alpha1.ManagedClusterAddOn{}
	if err := f.Get(context.Background(), types.NamespacedName{Namespace: f.full("a"), Name: f.name}, a); !apierrors.IsNotFound(err) {
		f.Errorf("the add-on is still there (%v), with the finalizers %v: %s", err, a.Finalizers, text(a.Status.Conditions, hookCompleted))
	}
}

func (f *fleet) mustWait(want string) {
	f.Helper()
	a := f.in("a")
	if got := text(a.Status.Conditions, hookCompleted); !strings.Contains(got, want) || !strings.HasPrefix(got, "False/HookManifestIsNotCompleted/") || len(a.Finalizers) == 0 {
		f.Errorf("the condition is %q, want %q; finalizers %v", got, want, a.Finalizers)
	}
}

// runHook has the agent of a cluster report on the hook's Job: feedback as name, value.
func (f *fleet) runHook(cluster, which string, feedback ...string) {
	f.Helper()
	w := f.worksIn(cluster)[which]
	if w == nil {
		f.Fatalf("there is no work %s", which)
	}
	f.done(w, true)
	m := workv1.ManifestCondition{Conditions: []metav1.Condition{}, ResourceMeta: workv1.ManifestResourceMeta{Group: "batch", Version: "v1", Kind: "Job", Resource: "jobs", Namespace: "default", Name: "clean"}}
	for i := 0; i+1 < len(feedback); i += 2 {
		m.StatusFeedbacks.Values = append(m.StatusFeedbacks.Values, workv1.FeedbackValue{Name: feedback[i], Value: workv1.FieldValue{Type: "String", String: &feedback[i+1]}})
	}
	f.ReportOn(w, func() { w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{m} })
}

const hookWork = "addon-A-pre-delete"

func TestAHookRunsBeforeTheAddOnGoes(t *testing.T) {
	f, _ := hooked(t, configMap)
	f.remove()
	all := f.mustHaveWorks("a", "addon-A-deploy-0 "+hookWork)
	if got := objectOf(t, all[hookWork].Spec.Workload.Manifests[0]); got.GetName() != "clean" || len(all[hookWork].OwnerReferences) != 1 {
		t.Errorf("the work of the hook is %+v", all[hookWork])
	}
	f.mustWait("hook manifestWork addon-" + f.name + "-pre-delete is not completed.")
	f.runHook("a", hookWork)
	f.look()
	f.mustWait("is not completed.")
	f.runHook("a", hookWork, "JobFailed", "True", "JobFailureMessage", "too many tries")
	f.look()
	f.mustWait("Job default/clean has failed: too many tries. Put that right (a Job or Pod that has failed runs again when it is deleted in the cluster " + f.full("a") +
		"), or remove the finalizer " + finalizer + " from the ManagedClusterAddOn " + f.full("a") + "/" + f.name + " to go on without.")
	if n := f.writes.During(f.look); n != 0 {
		t.Errorf("%d writes although nothing changed", n)
	}
	f.runHook("a", hookWork, "JobComplete", "True")
	f.look()
	f.mustBeGone()
}

// What is to run is known when all that the add-on was made from is gone.
func TestAHookRunsWithoutTheTemplate(t *testing.T) {
	f, template := hooked(t, configMap)
	f.Remove(template)
	f.Must(f.Delete(context.Background(), f.definition()))
	f.Eventually(func() error { // the garbage collector
		if f.in("a").DeletionTimestamp == nil {
			return fmt.Errorf("the add-on is not deleted")
		}
		return nil
	})
	f.look()
	f.mustHaveWorks("a", "addon-A-deploy-0 "+hookWork)
	f.runHook("a", hookWork, "JobComplete", "True")
	f.look()
	f.mustBeGone()
}

// An add-on that consists of a hook alone has no work that could keep it.
func TestAHookThatIsNotKnown(t *testing.T) {
	f := newFleet(t, "a")
	template := f.templated("a", preDelete)
	f.settle()
	f.mustHaveWorks("a", "")
	f.mustCondition("a", "ManifestApplied", "True/AddonManifestApplied/no manifest need to apply")
	f.Remove(template)
	f.remove()
	f.mustWait(`what is to run is not known: there is no AddOnTemplate "` + f.name + `": create it again, or name another one. Put that right`)
	f.mustHaveWorks("a", "")
	template.ResourceVersion, template.UID = "", ""
	f.Make(template)
	f.look()
	f.mustHaveWorks("a", hookWork)
	f.Remove(template) // once the work is there, it is enough
	f.look()
	f.mustWait("is not completed.")
	f.runHook("a", hookWork, "JobComplete", "True")
	f.look()
	f.mustBeGone()
}

// In a cluster that waits for its turn, what it has got runs.
func TestAHookOfWhatTheClusterHas(t *testing.T) {
	f, template := hooked(t, configMap)
	f.Must(f.Get(context.Background(), keyOf(template), template))
	template.Spec.AgentSpec.Workload.Manifests = manifests(configMap)
	f.Must(f.Update(context.Background(), template))
	f.remove()
	f.mustHaveWorks("a", "addon-A-deploy-0 "+hookWork)
	f.runHook("a", hookWork, "JobComplete", "True")
	f.look()
	f.mustBeGone()
}

// Where a hook can't run any more, the add-on goes without; where it may yet, it is
// said what to do.
func TestAHookWhoseClusterIsAway(t *testing.T) {
	cluster := func(f *fleet) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{}
		f.Must(f.Get(context.Background(), types.NamespacedName{Name: f.full("a")}, mc))
		return mc
	}
	for name, x := range map[string]struct {
		away func(f *fleet)
		want string // nothing: the add-on is gone
	}{
		"gone": {func(f *fleet) { f.Remove(cluster(f)) }, ""},
		"denied and removed": {func(f *fleet) {
			f.Merge(cluster(f), `{"metadata":{"finalizers":["example.org/x"]},"spec":{"hubAcceptsClient":false}}`)
			f.Must(f.Delete(context.Background(), cluster(f)))
		}, ""},
		"removed": {func(f *fleet) {
			f.Merge(cluster(f), `{"metadata":{"finalizers":["example.org/x"]}}`)
			f.Must(f.Delete(context.Background(), cluster(f)))
		}, "is not completed."},
		"denied": {func(f *fleet) { f.Merge(cluster(f), `{"spec":{"hubAcceptsClient":false}}`) }, "is denied, so its agent gets nothing new: accept it, or remove the finalizer"},
		"silent": {func(f *fleet) { f.report("a", metav1.ConditionUnknown) }, "is not heard of: it goes on when the cluster is back, or without the hook when the finalizer"},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := hooked(t, configMap)
			x.away(f)
			f.remove()
			if x.want != "" {
				f.mustWait(x.want)
				return
			}
			f.mustBeGone()
			if event := <-f.events.Events; !strings.HasPrefix(event, "Warning PreDeleteSkipped what was to run before the add-on is deleted does not: the cluster "+f.full("a")) {
				t.Errorf("the event is %q", event)
			}
		})
	}
}

// Finalizers follow the template, and those of earlier managers go.
func TestFinalizers(t *testing.T) {
	f, template := hooked(t, configMap)
	f.Merge(f.in("a"), `{"metadata":{"finalizers":["cluster.open-cluster-management.io/addon-pre-delete","example.org/x",%q]}}`, finalizer)
	f.look()
	if got := f.in("a").Finalizers; !slices.Equal(got, []string{"example.org/x", finalizer}) {
		t.Errorf("the finalizers are %v", got)
	}
	f.Must(f.Get(context.Background(), keyOf(template), template))
	template.Spec.AgentSpec.Workload.Manifests = manifests(configMap)
	f.Must(f.Update(context.Background(), template))
	f.settle()
	if got := f.in("a").Finalizers; !slices.Equal(got, []string{"example.org/x"}) {
		t.Errorf("the finalizers are %v", got)
	}
	f.Merge(f.in("a"), `{"metadata":{"finalizers":["cluster.open-cluster-management.io/addon-pre-delete"]}}`)
	f.remove()
	f.mustBeGone()
}

// The work of a hook that ran for an earlier add-on of the name proves nothing.
func TestAHookOfAnEarlierAddOn(t *testing.T) {
	f, _ := hooked(t, configMap)
	f.Make(&workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.full("a"), Name: "addon-" + f.name + "-pre-delete", Labels: map[string]string{"open-cluster-management.io/addon-name": f.name}},
		Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifests(preDelete)}},
	})
	f.runHook("a", hookWork, "JobComplete", "True")
	before := f.worksIn("a")[hookWork].UID
	f.remove()
	f.look()
	f.mustWait("is not completed.")
	if got := f.worksIn("a")[hookWork]; got == nil || got.UID == before {
		t.Errorf("the work is %+v", got)
	}
}

// hostedOn makes the add-on of the cluster "a" hosted.
func (f *fleet) hostedOn(host string) {
	f.Helper()
	f.Merge(f.in("a"), `{"metadata":{"annotations":{"addon.open-cluster-management.io/hosting-cluster-name":%q}}}`, host)
}

// at is a manifest for one of the two clusters.
func at(location, manifest string) string {
	if strings.Contains(manifest, `"annotations":{`) {
		return strings.Replace(manifest, `"annotations":{`, `"annotations":{"addon.open-cluster-management.io/hosted-manifest-location":"`+location+`",`, 1)
	}
	return strings.Replace(manifest, `"metadata":{`, `"metadata":{"annotations":{"addon.open-cluster-management.io/hosted-manifest-location":"`+location+`"},`, 1)
}

func TestAHostedAddOnFromATemplate(t *testing.T) {
	f := newFleet(t, "a host")
	named := func(name string) string { return strings.Replace(configMap, `"x"`, `"`+name+`"`, 1) }
	f.templated("a", named("plain"), at("hosting", named("there")), at("none", named("nowhere")), at("hosting", preDelete))
	f.settle()
	if n := len(f.worksIn("a")["addon-A-deploy-0"].Spec.Workload.Manifests); n != 3 {
		t.Errorf("an add-on that is not hosted has %d manifests, want all", n)
	}
	f.mustHaveWorks("host", "")

	hosting := "addon-A-deploy-hosting-" + strings.ReplaceAll(f.full("a"), f.name, "A") + "-0"
	f.hostedOn(f.full("host"))
	f.settle()
	if all := f.mustHaveWorks("a", "addon-A-deploy-0"); len(all["addon-A-deploy-0"].Spec.Workload.Manifests) != 1 {
		t.Errorf("the work is %+v", all["addon-A-deploy-0"].Spec)
	}
	w := f.mustHaveWorks("host", hosting)[hosting]
	if len(w.Spec.Workload.Manifests) != 1 || objectOf(t, w.Spec.Workload.Manifests[0]).GetName() != "there" || len(w.OwnerReferences) != 0 {
		t.Errorf("the work is %+v", w)
	}
	if got, want := f.in("a").Finalizers, []string{"addon.open-cluster-management.io/hosting-addon-pre-delete", "addon.open-cluster-management.io/hosting-manifests-cleanup"}; !slices.Equal(sorted(got), want) {
		t.Errorf("the finalizers are %v", got)
	}
	f.mustCondition("a", "HostingClusterValidity", "True/HostingClusterValid/hosting cluster "+f.full("host")+" is a managed cluster of the hub")
	f.apply("a host", true)
	f.settle()
	f.mustCondition("a", "HostingManifestApplied", applied)
	f.mustCondition("a", "Progressing", completed)

	// Deleted: what runs in the hosting cluster, then its works.
	hook := "addon-A-pre-delete-hosting-" + strings.ReplaceAll(f.full("a"), f.name, "A")
	f.remove()
	f.mustHaveWorks("host", hosting+" "+hook)
	f.runHook("host", hook, "JobComplete", "True")
	f.look()
	f.mustHaveWorks("host", "")
	f.mustBeGone()
}

// What is in a cluster that does not host the add-on any more goes.
func TestAHostThatHostsNoMore(t *testing.T) {
	hosting := func(f *fleet) string {
		return "addon-A-deploy-hosting-" + strings.ReplaceAll(f.full("a"), f.name, "A") + "-0"
	}
	for name, x := range map[string]struct {
		change   func(f *fleet)
		validity string
	}{
		"the annotation is removed": {func(f *fleet) {
			f.Merge(f.in("a"), `{"metadata":{"annotations":{"addon.open-cluster-management.io/hosting-cluster-name":null}}}`)
		}, ""},
		"the annotation is emptied": {func(f *fleet) { f.hostedOn("") }, "False/HostingClusterInvalid/hosting cluster  is not a managed cluster of the hub"},
		"the cluster is gone": {func(f *fleet) {
			mc := &clusterv1.ManagedCluster{}
			f.Must(f.Get(context.Background(), types.NamespacedName{Name: f.full("host")}, mc))
			f.Remove(mc)
		}, "False/HostingClusterInvalid/hosting cluster HOST is not a managed cluster of the hub"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "a host")
			f.templated("a", configMap, at("hosting", strings.Replace(configMap, `"x"`, `"y"`, 1)))
			f.pass()
			f.hostedOn(f.full("host"))
			f.settle()
			f.mustHaveWorks("host", hosting(f))
			x.change(f)
			f.settle()
			f.mustHaveWorks("host", "")
			if got := f.in("a").Finalizers; len(got) > 0 {
				t.Errorf("the finalizers are %v", got)
			}
			f.mustCondition("a", "HostingClusterValidity", strings.ReplaceAll(x.validity, "HOST", f.full("host")))
		})
	}
	t.Run("another cluster hosts", func(t *testing.T) {
		f := newFleet(t, "a host other")
		f.templated("a", configMap, at("hosting", strings.Replace(configMap, `"x"`, `"y"`, 1)))
		f.pass()
		f.hostedOn(f.full("host"))
		f.settle()
		f.hostedOn(f.full("other"))
		f.settle()
		f.mustHaveWorks("host", "")
		f.mustHaveWorks("other", hosting(f))
	})
}

func sorted(s []string) []string {
	out := slices.Clone(s)
	slices.Sort(out)
	return out
}

// A hub that is killed between two writes goes on where it was.
func TestDeployingGoesOnAfterAKill(t *testing.T) {
	for writes := range 4 {
		f := newFleet(t, "a")
		f.templated("a", configMap, deployment, preDelete)
		f.pass()
		f.Reconcile(f.registration, keyOf(f.in("a")))
		dying := f.dyingAfter(writes)
		_, _ = dying.Reconcile(context.Background(), requestFor(f.in("a")))
		f.settle()
		f.apply("a", true)
		f.settle()
		f.remove()
		dying = f.dyingAfter(writes)
		_, _ = dying.Reconcile(context.Background(), requestFor(f.in("a")))
		f.look()
		f.runHook("a", hookWork, "JobComplete", "True")
		dying = f.dyingAfter(writes)
		_, _ = dying.Reconcile(context.Background(), requestFor(f.in("a")))
		f.look()
		f.mustBeGone()
	}
}

func requestFor(a *addonv1alpha1.ManagedClusterAddOn) reconcile.Request {
	return reconcile.Request{NamespacedName: keyOf(a)}
}

// dyingAfter deploys until it has written so many times; all further writes fail.
func (f *fleet) dyingAfter(writes int) reconcile.Reconciler {
	f.Helper()
	config := env.Config("muster-test-dying")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				if writes--; writes < 0 {
					return nil, errors.New("killed")
				}
			}
			return next.RoundTrip(r)
		})
	})
	c := env.ClientFor(f, config)
	return addoncontrollers.NewStages(c, deploy.NewController(c, c, c, f.events, f.clock, deploy.Options{}))
}

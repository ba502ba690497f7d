package explain

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

func web(of ...string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "paris", Name: "web"}}
	w.Status.Conditions = conditions(of...)
	return w
}

// with adds a manifest, a ConfigMap, with these conditions to a work.
func with(w *workv1.ManifestWork, of ...string) *workv1.ManifestWork {
	w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Namespace: "team", Name: "a"},
		Conditions:   conditions(of...),
	})
	return w
}

func deleted[T metav1.Object](o T, finalizers ...string) T {
	at := before(time.Minute)
	o.SetDeletionTimestamp(&at)
	o.SetFinalizers(finalizers)
	return o
}

func TestWork(t *testing.T) {
	there := paris(true, isAccepted, isJoined, isAvailable)
	silent := paris(true, isAccepted, isJoined, isSilent)
	failed := func(message string) *workv1.ManifestWork {
		return with(web("Applied=False/x/Failed"), "Applied=False/AppliedManifestFailed/Failed to apply manifest: "+
			""+message)
	}
	for name, x := range map[string]struct {
		facts WorkFacts
		level Level
		wants []string
	}{
		"all is well": {WorkFacts{Work: web("Applied=True", "Available=True"), Cluster: there}, OK,
			[]string{"applied and available."}},
		"no cluster": {WorkFacts{Work: web(), NoCluster: true}, Problem, []string{"no managed cluster paris",
			"!has not reported"}},
		"a silent agent": {
			WorkFacts{Work: web("Applied=True", "Available=True"), Cluster: silent}, Problem,
			[]string{"by its agent's last report", "unreachable since", "muster explain cluster paris"},
		},
		"not reported": {WorkFacts{Work: web(), Cluster: there}, Waiting, []string{"not applied yet",
			"has not reported"}},
		"reported on earlier manifests": {
			WorkFacts{Work: changed(web("Applied=False"), func(w *workv1.ManifestWork) {
				w.Generation, w.Status.Conditions[0].ObservedGeneration = 2, 1
			}), Cluster: there}, Waiting, []string{"not applied yet"},
		},
		"no namespace": {
			WorkFacts{Work: failed(`namespaces "team" not found`)}, Problem,
			[]string{`The ConfigMap team/a could not be applied: namespaces "team" not found`,
				"kubectl create namespace team",
				"muster replay paris web", "kubectl -n paris edit manifestwork web"},
		},
		"no such kind": {WorkFacts{Work: failed(`the server doesn't have a resource type "Foo"`)}, Problem,
			[]string{"install what defines"}},
		"no rights": {WorkFacts{Work: failed(`configmaps is forbidden: no`)}, Problem,
			[]string{work.AggregateToWorkLabel}},
		"an immutable field": {
			WorkFacts{Work: failed(`is invalid: spec: Forbidden: updates are not`)}, Problem,
			[]string{"correct the manifest", "!aggregate"},
		},
		"a conflict": {WorkFacts{Work: failed(`Apply failed with 1 conflict: conflict with "hpa"`)}, Problem,
			[]string{"somebody else owns"}},
		"an executor without rights": {
			WorkFacts{Work: changed(failed("not allowed to apply the resource"), func(w *workv1.ManifestWork) {
				sa := &workv1.ManifestWorkSubjectServiceAccount{Namespace: "ns", Name: "sa"}
				w.Spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
					ServiceAccount: sa}}
			})}, Problem, []string{"service account ns/sa", "--as system:serviceaccount:ns:sa -n team"},
		},
		"refused as a whole": {WorkFacts{Work: web("Applied=False/x/too many rules")}, Problem,
			[]string{"too many rules"}},
		"missing": {
			WorkFacts{Work: with(web("Applied=True", "Available=False"), "Applied=True",
				"Available=False/x/not there")}, Problem,
			[]string{"objects of it are missing", "ConfigMap team/a: not there"},
		},
		"contested": {
			WorkFacts{Work: with(web("Applied=True", "Available=True"), "Contested=True/x/the work other holds it, "+
				"too")}, Warning,
			[]string{"keeps changing 1 object back", "the work other holds it"},
		},
		"degraded": {
			WorkFacts{Work: web("Applied=True", "Available=True", "Progressing=True", "Degraded=True/x/image not "+
				"found")}, Problem,
			[]string{"does not come up", "image not found", "!still on its way"},
		},
		"progressing": {WorkFacts{Work: web("Applied=True", "Available=True", "Progressing=True/x/0 of 1")}, Waiting,
			[]string{"0 of 1"}},
		"complete": {WorkFacts{Work: web("Applied=True", "Complete=True")}, OK, []string{"--lift-complete"}},
		"of a replica set": {
			WorkFacts{Work: changed(failed("x"), func(w *workv1.ManifestWork) {
				w.Labels = map[string]string{work.ReplicaSetLabel: "shop.web.v2"}
			})}, Problem, []string{"muster explain rollout shop/web.v2", "!edit manifestwork"},
		},
		"being deleted": {
			WorkFacts{Work: deleted(web("Deleting=True/x/waiting for a, held by the finalizer b"),
				work.ManifestWorkFinalizer), Cluster: there},
			Waiting, []string{"asked for at", "repair these", "!detach"},
		},
		"being deleted without its agent": {
			WorkFacts{Work: deleted(web(), work.ManifestWorkFinalizer), Cluster: silent}, Problem,
			[]string{"muster detach paris --force"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			x.facts.Now = now
			verify(t, Work(x.facts), x.level, x.wants...)
		})
	}
}

func placement(satisfied string, n int32) *clusterv1beta1.Placement {
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p"}}
	p.Status.NumberOfSelectedClusters, p.Status.Conditions = n, conditions(satisfied)
	return p
}

// snapshot is a fleet of three clusters in a set that is bound to team: one is tainted,
// and two are of the environment dev.
func snapshot() *scheduling.Snapshot {
	s := &scheduling.Snapshot{
		Sets: []clusterv1beta2.ManagedClusterSet{{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}},
		Bindings: []clusterv1beta2.ManagedClusterSetBinding{{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team",
			Name:      "prod"}}},
	}
	for i, env := range []string{"prod", "dev", "dev"} {
		m := clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i)}}
		m.Labels = map[string]string{cluster.ClusterSetLabel: "prod", "env": env}
		if env == "prod" {
			m.Spec.Taints = []clusterv1.Taint{{Key: "mine", Effect: clusterv1.TaintEffectNoSelect}}
		}
		s.Clusters = append(s.Clusters, m)
	}
	return s
}

func TestPlacement(t *testing.T) {
	const unsatisfied, satisfied = cluster.ConditionPlacementSatisfied + "=False/",
		cluster.ConditionPlacementSatisfied + "=True"
	two, production := int32(2), clusterv1beta1.ClusterPredicate{}
	production.RequiredClusterSelector.LabelSelector.MatchLabels = map[string]string{"env": "prod"}
	for name, x := range map[string]struct {
		facts PlacementFacts
		level Level
		wants []string
	}{
		"all is well": {PlacementFacts{Placement: placement(satisfied, 3)}, OK, []string{"team/p selects 3 clusters."}},
		"undecided":   {PlacementFacts{Placement: &clusterv1beta1.Placement{}}, Waiting, []string{"not been decided"}},
		"misconfigured": {
			PlacementFacts{Placement: changed(placement(unsatisfied, 0), func(p *clusterv1beta1.Placement) {
				p.Status.Conditions = conditions(cluster.ConditionPlacementMisconfigured + "=True/x/bad selector")
			})}, Problem, []string{"bad selector", "kubectl -n team edit placement p"},
		},
		"frozen": {
			PlacementFacts{Placement: changed(placement(satisfied, 1), func(p *clusterv1beta1.Placement) {
				p.Annotations = map[string]string{cluster.SchedulingDisabledAnnotation: "true"}
			})}, Warning, []string{"frozen", cluster.SchedulingDisabledAnnotation + "-"},
		},
		"no set bound": {
			PlacementFacts{Placement: placement(unsatisfied+cluster.ReasonNoManagedClusterSetBindings, 0),
				Fleet: &scheduling.Snapshot{
					Bindings: []clusterv1beta2.ManagedClusterSetBinding{{ObjectMeta: metav1.ObjectMeta{
						Namespace: "team",
						Name:      "gone"}}},
				}}, Problem, []string{"No cluster set is bound", "sets that do not exist: gone",
				"clusteradm clusterset bind default --namespace team"},
		},
		"another set bound": {
			PlacementFacts{Placement: changed(placement(unsatisfied+cluster.ReasonNoIntersection, 0),
				func(p *clusterv1beta1.Placement) {
					p.Spec.ClusterSets = []string{"dev"}
				}), Fleet: snapshot()}, Problem, []string{"names the sets dev", "are the sets: prod", "bind dev"},
		},
		"an empty set": {
			PlacementFacts{Placement: placement(unsatisfied+cluster.ReasonAllManagedClusterSetsEmpty, 0)}, Problem,
			[]string{"kubectl label managedcluster"},
		},
		"predicates and taints": {
			PlacementFacts{Placement: changed(placement(unsatisfied+cluster.ReasonNoManagedClusterMatched, 0),
				func(p *clusterv1beta1.Placement) {
					p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{production}
				}), Fleet: snapshot()}, Problem,
			[]string{"2 are left out, matching none of its predicates", "want In [prod], have dev", "clusters: c1, c2",
				"1 is left out, for a taint", "mine:NoSelect", "muster explain cluster c0"},
		},
		"too few": {
			PlacementFacts{Placement: changed(placement(unsatisfied+cluster.ReasonNotAllDecisionsScheduled, 1),
				func(p *clusterv1beta1.Placement) {
					p.Spec.NumberOfClusters = &two
				})}, Warning, []string{"selects 1 cluster, and asks for 2"},
		},
		"others come first": {
			PlacementFacts{Placement: changed(placement(satisfied, 1), func(p *clusterv1beta1.Placement) {
				p.Spec.NumberOfClusters = new(int32)
				*p.Spec.NumberOfClusters = 1
			}), Fleet: snapshot()}, OK, []string{"as others come first", "raise numberOfClusters"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			x.facts.Now = now
			if x.facts.Fleet != nil {
				in := x.facts.Fleet.Input(x.facts.Placement)
				in.Now, in.Explain = now, true
				x.facts.Decided = scheduling.Schedule(in)
			}
			verify(t, Placement(x.facts), x.level, x.wants...)
		})
	}
}

func replicaSet(of ...string) *workv1alpha1.ManifestWorkReplicaSet {
	s := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}}
	s.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p"}}
	s.Status.Conditions = conditions(of...)
	return s
}

func TestRollout(t *testing.T) {
	const verified, done = work.ConditionPlacementVerified + "=True", work.ConditionPlacementRolledOut + "=True"
	decision := clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "team",
		Labels: map[string]string{
			cluster.PlacementLabel: "p", cluster.DecisionGroupIndexLabel: "0", cluster.DecisionGroupNameLabel: "canary",
		}}}
	decision.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: "c0"}, {ClusterName: "c1"}}
	in := func(name string, of ...string) workv1.ManifestWork {
		w := web(of...)
		w.Namespace, w.Labels = name, map[string]string{work.PlacementNameLabel: "p", work.ReplicaSetLabel: "team.web"}
		return *w
	}
	progressive := changed(replicaSet(verified), func(s *workv1alpha1.ManifestWorkReplicaSet) {
		s.Spec.PlacementRefs[0].RolloutStrategy = clusterv1alpha1.RolloutStrategy{
			Type:        clusterv1alpha1.RolloutTypeProgressive,
			Progressive: &clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.FromInt32(1)},
		}
	})
	for name, x := range map[string]struct {
		facts RolloutFacts
		level Level
		wants []string
	}{
		"all is well": {RolloutFacts{Set: replicaSet(verified, done)}, OK, []string{"rolled out to 0 clusters"}},
		"no placement": {
			RolloutFacts{Set: replicaSet(work.ConditionPlacementVerified + "=False/x/there is no placement p")},
			Problem,
			[]string{"there is no placement p", "muster explain placement team/p"},
		},
		"not looked at": {RolloutFacts{Set: replicaSet()}, Waiting, []string{"feature gate ManifestWorkReplicaSet"}},
		"stopped": {
			RolloutFacts{Set: progressive, Read: true, Decisions: []clusterv1beta1.PlacementDecision{decision},
				Works: []workv1.ManifestWork{
					in("c0", "Applied=True", "Available=True", "Progressing=True", "Degraded=True/x/image not found"),
				}}, Problem,
			[]string{"stopped at decision group 0 (canary): 1 cluster has failed or timed out, and the strategy " +
				"allows 0", "failed: c0",
				"not begun, or still with the template from before: c1", "muster explain work c0/web",
				"muster resume-rollout team/web --rolled-out"},
		},
		"under way": {
			RolloutFacts{Set: progressive, Read: true, Decisions: []clusterv1beta1.PlacementDecision{decision},
				Works: []workv1.ManifestWork{
					in("c0", "Applied=True", "Available=True", "Progressing=True"),
				}}, Waiting, []string{"done are 0 of 2 clusters of the placement p", "under way: c0",
				"muster explain work c0/web", "!resume"},
		},
		"not applied": {
			RolloutFacts{Set: replicaSet(verified), Read: true,
				Decisions: []clusterv1beta1.PlacementDecision{decision}, Works: []workv1.ManifestWork{
					*with(changed(web("Applied=False"), func(w *workv1.ManifestWork) { w.Namespace = "c0" }),
						"Applied=False/x/quota"),
				}}, Problem, []string{"In 1 cluster: The ConfigMap team/a could not be applied: quota",
				"muster explain work c0/web"},
		},
		"being deleted": {
			RolloutFacts{Set: deleted(replicaSet(), work.ReplicaSetFinalizer),
				Works:    []workv1.ManifestWork{in("paris")},
				Clusters: map[string]*clusterv1.ManagedCluster{"paris": paris(true, isAccepted, isJoined, isSilent)}},
			Problem,
			[]string{"1 work is left", "muster explain work paris/web", "muster detach paris --force"},
		},
		"at a gate": {RolloutFacts{Set: replicaSet(work.ConditionPlacementVerified+"=True",
			muster.ConditionGatesOpen+"=False/AwaitingApproval/3 clusters wait for an approval")},
			Waiting, []string{"is held back: 3 clusters wait", "Somebody has to approve",
				"muster rollout approve team/web GROUP"}},
		"paused": {RolloutFacts{Set: replicaSet(work.ConditionPlacementVerified+"=True",
			muster.ConditionGatesOpen+"=False/Paused/1 cluster waits")}, Waiting,
			[]string{"Somebody has paused it", "muster rollout pause --undo team/web"}},
		"a cluster lacks a value": {RolloutFacts{Set: replicaSet(verified, muster.ConditionOverridden+
			"=False/ClustersWithout/"+rollout.AboutOverride("00")+"in c1: the value REGION: no label region")},
			Problem, []string{"does not reach all clusters: in c1: the value REGION: no label region",
				"Clusters lack a value of its override", "kubectl label managedcluster", "!override 00"}},
		"gates that can't be read": {RolloutFacts{Set: replicaSet(work.ConditionPlacementVerified+"=True",
			muster.ConditionGatesOpen+"=False/GatesUnreadable/nothing is handed out")}, Problem,
			[]string{"can't be read", "edit manifestworkreplicaset web"}},
	} {
		t.Run(name, func(t *testing.T) {
			x.facts.Now = now
			verify(t, Rollout(x.facts), x.level, x.wants...)
		})
	}
}

func TestAddOn(t *testing.T) {
	metrics := func(of ...string) *addonv1alpha1.ManagedClusterAddOn {
		a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "paris", Name: "metrics"}}
		a.Status.Conditions = conditions(of...)
		return a
	}
	for name, x := range map[string]struct {
		facts AddOnFacts
		level Level
		wants []string
	}{
		"all is well": {AddOnFacts{AddOn: metrics("Available=True")}, OK, []string{"metrics in paris is available."}},
		"never heard": {AddOnFacts{AddOn: metrics()}, Waiting, []string{"sign of life",
			"kubectl -n paris get manifestworks", "agent-addon get pods"}},
		"undefined": {AddOnFacts{AddOn: metrics("Available=True"), NoDefinition: true}, Problem,
			[]string{"no ClusterManagementAddOn metrics"}},
		"no rights": {
			AddOnFacts{AddOn: metrics(registration.ConditionRegistrationApplied + "=False/x/no such role")}, Problem,
			[]string{"can't register", "no such role"},
		},
		"a stale lease": {
			AddOnFacts{AddOn: metrics("Available=False/" + addon.ReasonLeaseUpdateStopped + "/no lease"),
				Works: []workv1.ManifestWork{*web("Applied=True")}},
			Problem, []string{"unhealthy", "no lease", "muster explain work paris/web"},
		},
		"not applied": {
			AddOnFacts{AddOn: metrics("ManifestApplied=False/x/no"), Works: []workv1.ManifestWork{*web("Applied=True",
				"Available=True"),
				*changed(web("Applied=False"), func(w *workv1.ManifestWork) { w.Name = "bad" })}},
			Problem, []string{"manifests could not be", "muster explain work paris/bad"},
		},
		"manifests that can't be made": {
			AddOnFacts{AddOn: metrics("ManifestApplied=False/x/" + addon.MessageRenderFailed + "no REGION"),
				Works: []workv1.ManifestWork{*web("Applied=True", "Available=True")}},
			Problem, []string{"no REGION", "correct what the message names, on the hub", "!explain work"},
		},
		"a silent agent": {
			AddOnFacts{AddOn: metrics("Available=Unknown/" + cluster.ReasonLeaseUpdateStopped), Cluster: paris(true,
				isAccepted, isJoined, isSilent)},
			Problem,
			[]string{"muster explain cluster paris", "unreachable"},
		},
		"no lease": {
			AddOnFacts{AddOn: metrics("Available=Unknown/ManagedClusterAddOnLeaseNotFound/unknown")}, Problem,
			[]string{"no sign of life", "agent-addon get pods", "!explain cluster"},
		},
		"no template": {
			AddOnFacts{AddOn: changed(metrics(), func(a *addonv1alpha1.ManagedClusterAddOn) {
				a.Status.ConfigReferences = []addonv1alpha1.ConfigReference{{
					ConfigGroupResource: addonv1alpha1.ConfigGroupResource{Group: addon.GroupName,
						Resource: addon.TemplateResource},
					DesiredConfig: &addonv1alpha1.ConfigSpecHash{
						ConfigReferent: addonv1alpha1.ConfigReferent{Name: "v1"}},
				}}
			})}, Problem, []string{"AddOnTemplate v1 does not exist", "muster_addon_template"},
		},
		"unsupported configuration": {
			AddOnFacts{AddOn: metrics("Progressing=False/" + addon.ReasonConfigurationUnsupported +
				"/x/y is not supported")}, Problem,
			[]string{"does not support", "x/y is not supported"},
		},
		"being deleted": {AddOnFacts{AddOn: deleted(metrics(), addon.PreDeleteFinalizer)}, Waiting,
			[]string{addon.PreDeleteFinalizer}},
	} {
		t.Run(name, func(t *testing.T) {
			x.facts.Now = now
			verify(t, AddOn(x.facts), x.level, x.wants...)
		})
	}
}

func TestCloud(t *testing.T) {
	prod := func(ready, selected int32, failing ...musterv1alpha1.FailingCluster) *musterv1alpha1.LogicalCloud {
		c := &musterv1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "prod"}}
		c.Status.Clusters = musterv1alpha1.CloudClusters{Selected: selected, Ready: ready,
			Failed: int32(len(failing)), Failing: failing}
		c.Status.Conditions = conditions(muster.ConditionReady + "=True")
		return c
	}
	asked := func(name string, of ...string) musterv1alpha1.AccessRequest {
		r := musterv1alpha1.AccessRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name,
			CreationTimestamp: before(time.Hour)}}
		r.Spec.User, r.Spec.ManagedCluster = "jo", "paris"
		r.Status.Conditions = conditions(of...)
		return r
	}
	issued := asked("r1", muster.ConditionIssued+"=True")
	until := metav1.NewTime(now.Add(2 * time.Hour))
	issued.Status.NotAfter = &until
	for name, x := range map[string]struct {
		facts CloudFacts
		level Level
		wants []string
	}{
		"all is well": {CloudFacts{Cloud: prod(2, 2)}, OK, []string{"team/prod is ready in 2 clusters."}},
		"nowhere": {
			CloudFacts{Cloud: changed(prod(0, 0), func(c *musterv1alpha1.LogicalCloud) {
				c.Spec.Placements = []musterv1alpha1.PlacementReference{{Name: "p"}}
				c.Status.Conditions = conditions(muster.ConditionSelected + "=False/NoClusters/none")
			})}, Warning, []string{"in no clusters", "muster explain placement team/p"},
		},
		"failing": {
			CloudFacts{Cloud: prod(0, 3,
				musterv1alpha1.FailingCluster{Name: "rome", Reason: muster.ReasonNamespaceExists,
					Message: "somebody's"},
				musterv1alpha1.FailingCluster{Name: "oslo", Reason: muster.ReasonApplyFailed, Message: "quota"},
				musterv1alpha1.FailingCluster{Name: "bonn", Reason: muster.ReasonAgentOffline})}, Problem,
			[]string{"can't get into 3 of 3", "belongs to somebody else", "rome (NamespaceExists): somebody's",
				"oslo (ApplyFailed): quota",
				"muster explain work oslo/" + muster.CloudWork("team", "prod"), "muster explain cluster bonn"},
		},
		"requests": {
			CloudFacts{Cloud: prod(1, 1), Requests: []musterv1alpha1.AccessRequest{
				asked("r0"), issued, asked("r2", muster.ConditionFailed+"=True/SignerSilent/no answer"), asked("r3",
					muster.ConditionExpired+"=True"),
			}}, Warning,
			[]string{"1 access request is not answered yet", "r0: jo in paris", "1 access request has failed",
				"no answer",
				"jo in paris until 2026-11-23T22:00:00Z, in 120m (access request r1)", "!r3"},
		},
		"being deleted": {
			CloudFacts{Cloud: deleted(changed(prod(0, 1), func(c *musterv1alpha1.LogicalCloud) {
				c.Status.Conditions = conditions(muster.ConditionDeleting + "=False/ClustersLeft/paris")
			}), muster.AccessFinalizer)}, Waiting, []string{"ClustersLeft"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			x.facts.Now = now
			verify(t, Cloud(x.facts), x.level, x.wants...)
		})
	}
}

func TestImport(t *testing.T) {
	imported := func(of ...string) *musterv1alpha1.ClusterImport {
		i := &musterv1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: "paris"}}
		i.Spec.KubeconfigSecret, i.Status.Conditions = "paris-admin", conditions(of...)
		return i
	}
	const usable, installed, joined = muster.ConditionKubeconfigUsable, muster.ConditionAgentInstalled,
		muster.ConditionJoined
	for name, x := range map[string]struct {
		of    *musterv1alpha1.ClusterImport
		level Level
		wants []string
	}{
		"new":      {imported(), Waiting, []string{"not been looked at", hubReady}},
		"deleting": {deleted(imported(usable+"=True"), "x"), Waiting, []string{"is being deleted"}},
		"no kubeconfig": {imported(usable+"=False/SecretMissing/there is no Secret paris-admin", joined+"=False/x"),
			Problem, []string{"its kubeconfig can't be used", "there is no Secret",
				"kubectl -n muster-imports edit secret paris-admin"}},
		"a refused object": {imported(usable+"=True", installed+"=False/InstallFailed/forbidden"), Problem,
			[]string{"not installed as asked", "forbidden", agentLog}},
		"on its way": {imported(usable+"=True", installed+"=False/RollingOut/no pod runs"), Waiting,
			[]string{"waits for the agent to run", "no pod runs"}},
		"unregistered": {imported(usable+"=True", installed+"=True", joined+"=False/WaitingForAgent/no"), Waiting,
			[]string{"to register", "muster explain cluster paris"}},
		"unaccepted": {imported(usable+"=True", installed+"=True", joined+"=False/WaitingForApproval/no"), Waiting,
			[]string{"to be accepted"}},
		"joined before": {imported(usable+"=True", installed+"=True",
			joined+"=False/RejoinNeeded/it has lost its identity"), Warning,
			[]string{"has not joined", "lost its identity"}},
		"done": {imported(usable+"=False/Forgotten/deleted", installed+"=True", joined+"=True/ClusterJoined"), OK,
			[]string{"is done", "!Forgotten"}},
		"restored": {imported(usable+"=True", installed+"=True", joined+"=True", muster.ConditionDrifted+
			"=False/Repaired/the Deployment"), Warning, []string{"has restored them", "the Deployment"}},
	} {
		t.Run(name, func(t *testing.T) { verify(t, Import(x.of, now), x.level, x.wants...) })
	}
}

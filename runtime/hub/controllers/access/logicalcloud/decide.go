package logicalcloud

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access/cloud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// plan is what to do in a pass, and what there is to report about it.
type plan struct {
	// clusters are those that the cloud is in, or is to be in, by name.
	clusters []*step
	// problems say which grants can't be given.
	problems []string
}

// step is what to do in one cluster, and how the cloud is there.
type step struct {
	name string
	// selected says that placements select the cluster.
	selected bool
	// write is the work that it gets, and have the one that it replaces.
	write, have *workv1.ManifestWork
	// ask is the probe that it gets, and asked the one that it replaces.
	ask, asked *workv1.ManifestWork
	// remove are works that it loses.
	remove []*workv1.ManifestWork

	ready, failed   bool
	reason, message string
	// unable says that the cluster's agent gives no access.
	unable bool
	// leftOut is how many keys have no access, as there are too many.
	leftOut int
}

func (st *step) wait(reason, format string, args ...any) {
	st.reason, st.message = reason, fmt.Sprintf(format, args...)
}

func (st *step) fail(reason, format string, args ...any) {
	st.wait(reason, format, args...)
	st.failed = true
}

func (st *step) drop(works ...*workv1.ManifestWork) {
	for _, w := range works {
		if w != nil && w.DeletionTimestamp.IsZero() {
			st.remove = append(st.remove, w)
		}
	}
}

// decide finds what to do in each cluster.
func decide(s *situation) plan {
	names := sets.KeySet(s.selection.Clusters).Union(sets.KeySet(s.works)).Union(sets.KeySet(s.probes))
	p := plan{problems: cloud.Problems(s.cloud, s.catalogue)}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		mc, selected := s.selection.Clusters[name]
		st := &step{name: name, selected: selected}
		switch {
		case selected:
			s.stay(st, mc)
		case s.selection.Settled:
			s.leave(st)
		default: // it may be on its way from one decision to another
			st.ready = s.works[name] != nil
		}
		p.clusters = append(p.clusters, st)
	}
	return p
}

// render is the work of a cluster, with these keys and the namespace of their service
// accounts.
func (s *situation) render(name string, adopted bool, keys []cloud.Key, accounts string) cloud.Output {
	return cloud.Render(cloud.Input{
		Cloud: s.cloud, Cluster: name, HubID: s.hubID, Catalogue: s.catalogue, Keys: keys, Accounts: accounts,
		Adopted: adopted, Limit: s.limit,
	})
}

// stay brings the cloud into a selected cluster, and keeps it there.
func (s *situation) stay(st *step, mc *clusterv1.ManagedCluster) {
	have, probe := s.works[st.name], s.probes[st.name]
	rival, taken := s.takenBy[st.name]
	switch {
	case taken:
		s.leave(st)
		st.drop(probe)
		st.fail(muster.ReasonNamespaceTaken, "the logical cloud %s has the namespace %s in this cluster: use another namespace, or other clusters", rival, s.cloud.Spec.Namespace.Name)
	case !mc.Spec.AcceptsClient():
		// Denied clusters give nobody access. What is there goes once the cluster
		// is accepted again, or is deleted.
		if have != nil && have.DeletionTimestamp.IsZero() {
			s.update(st, have, nil, s.accountsOf(have))
		}
		st.drop(probe)
		st.fail(muster.ReasonClusterNotAccepted, "the hub does not accept the cluster: accept it, or leave it out of the placement")
	case have != nil && have.DeletionTimestamp.IsZero():
		accounts, taken := s.settleAccounts(st, have, probe)
		s.update(st, have, s.keys[st.name], accounts)
		s.judge(st, have, mc)
		if taken {
			s.failAccounts(st)
		}
	case have != nil:
		st.wait(muster.ReasonLeaving, "what the cloud left in the cluster at an earlier time is still being removed%s", silence(mc))
	default:
		s.enter(st, probe, mc)
	}
}

// accountsOf is the namespace with the service accounts of a work. Works of earlier
// versions, which name none, have them in the cloud's own namespace.
func (s *situation) accountsOf(have *workv1.ManifestWork) string {
	if accounts, named := have.Annotations[muster.AccountNamespaceAnnotation]; named {
		return accounts
	}
	return s.cloud.Spec.Namespace.Name
}

// settleAccounts finds the namespace for the service accounts of a work. A work that
// has them elsewhere, or has had none, gets it after a probe has found that nobody else
// has it; taken says that somebody has.
func (s *situation) settleAccounts(st *step, have, probe *workv1.ManifestWork) (accounts string, taken bool) {
	want, is := cloud.AccountNamespace(s.cloud, s.hubID), s.accountsOf(have)
	if want == "" || is == want {
		st.drop(probe)
		return want, false
	}
	found := s.probe(st, probe)(want)
	switch {
	case !found.Answered:
		return is, false
	case found.Exists && !found.Of(s.cloud, s.hubID):
		return "", true
	}
	st.drop(probe)
	return want, false
}

// failAccounts says that the namespace for the service accounts is somebody else's.
func (s *situation) failAccounts(st *step) {
	st.fail(muster.ReasonAccountNamespaceExists, "the namespace %s, for the service accounts of the cloud's users, exists and is not the cloud's: "+
		"delete it in the cluster, or have the cloud allow no tokens (spec.access.modes: [Certificate])", cloud.AccountNamespace(s.cloud, s.hubID))
}

// probe has a cluster's probe be as it is wanted, and returns what it has found of a
// namespace.
func (s *situation) probe(st *step, probe *workv1.ManifestWork) func(namespace string) cloud.Found {
	want := cloud.Probe(s.cloud, s.hubID, st.name)
	switch {
	case probe == nil, probe.DeletionTimestamp.IsZero() && !same(probe, want):
		st.ask, st.asked = want, probe
	case probe.DeletionTimestamp.IsZero():
		return func(namespace string) cloud.Found { return cloud.ReadProbe(probe, namespace) }
	}
	return func(string) cloud.Found { return cloud.Found{} }
}

// update gives a cluster's work its content, if it has another one.
func (s *situation) update(st *step, have *workv1.ManifestWork, keys []cloud.Key, accounts string) {
	out := s.render(st.name, have.Annotations[muster.AdoptedAnnotation] == "true", keys, accounts)
	st.leftOut = out.LeftOut
	if !same(have, out.Work) {
		st.write, st.have = out.Work, have
	}
}

// same reports whether a work is as it is wanted.
func same(have, want *workv1.ManifestWork) bool {
	for _, m := range []struct{ have, want map[string]string }{{have.Labels, want.Labels}, {have.Annotations, want.Annotations}} {
		for k, v := range m.want {
			if value, ok := m.have[k]; !ok || value != v {
				return false
			}
		}
	}
	return workdigest.Of(have.Spec) == workdigest.Of(want.Spec)
}

// enter brings the cloud into a cluster that has no work of it. First a probe looks
// whether the namespace is there: a work would take it over.
func (s *situation) enter(st *step, probe *workv1.ManifestWork, mc *clusterv1.ManagedCluster) {
	name, accounts := s.cloud.Spec.Namespace.Name, cloud.AccountNamespace(s.cloud, s.hubID)
	probed := s.probe(st, probe)
	found, beside := probed(name), cloud.Found{Answered: true}
	if accounts != "" {
		beside = probed(accounts)
	}
	adopt := s.cloud.Spec.Namespace.Existing == v1alpha1.ExistingAdopt
	switch {
	case !found.Answered || !beside.Answered:
		st.wait(muster.ReasonProbing, "the cluster's agent has not told yet whether there is a namespace %s%s", name, silence(mc))
		return
	case found.Exists && found.HubID != "" && found.HubID != s.hubID:
		st.fail(muster.ReasonNamespaceExists, "the namespace %s is of a logical cloud of another hub: use another name, or take the annotation %s off the namespace and adopt it", name, muster.HubAnnotation)
		return
	case found.Exists && !found.Of(s.cloud, s.hubID) && !adopt:
		st.fail(muster.ReasonNamespaceExists, "there is a namespace %s that is not the cloud's: use another name, delete it in the cluster, or have the cloud adopt it with existing: Adopt", name)
		return
	case beside.Exists && !beside.Of(s.cloud, s.hubID):
		s.failAccounts(st)
		return
	}
	own := found.Of(s.cloud, s.hubID)
	out := s.render(st.name, found.Exists && (!own || found.Adopted), s.keys[st.name], accounts)
	st.write, st.have, st.leftOut = out.Work, nil, out.LeftOut
	st.drop(probe)
	st.wait(muster.ReasonApplying, "the cluster's agent has not applied everything yet%s", silence(mc))
}

// leave takes the cloud out of a cluster. What becomes of the namespace is in the
// work's spec, and agents act by the spec that they applied last. So when it is
// newer than that, they get the time to apply it, without any keys.
func (s *situation) leave(st *step) {
	st.drop(s.probes[st.name])
	have := s.works[st.name]
	if have == nil {
		return
	}
	if !have.DeletionTimestamp.IsZero() {
		st.wait(muster.ReasonLeaving, "its agent is removing what the cloud has there")
		return
	}
	retention := string(cloud.Retention(s.cloud, have.Annotations[muster.AdoptedAnnotation] == "true"))
	applied := meta.FindStatusCondition(have.Status.Conditions, work.ConditionApplied)
	untouched := !slices.Contains(have.Finalizers, work.ManifestWorkFinalizer)
	known := applied != nil && applied.ObservedGeneration == have.Generation
	if untouched || known && have.Annotations[muster.RetentionAnnotation] == retention {
		st.drop(have)
	} else {
		s.update(st, have, nil, s.accountsOf(have))
	}
	st.wait(muster.ReasonLeaving, "its agent has not removed yet what the cloud has there")
}

// judge assesses the cloud in a cluster with a work.
func (s *situation) judge(st *step, have *workv1.ManifestWork, mc *clusterv1.ManagedCluster) {
	current := func(kind string) *metav1.Condition {
		c := meta.FindStatusCondition(have.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != have.Generation || st.write != nil {
			return nil
		}
		return c
	}
	applied, available := current(work.ConditionApplied), current(work.ConditionAvailable)
	st.unable = mc.Annotations[muster.UserAccessAnnotation] == ""
	switch {
	case applied != nil && applied.Status == metav1.ConditionFalse:
		st.fail(muster.ReasonApplyFailed, "%s", whyNotApplied(have))
	case applied == nil || applied.Status != metav1.ConditionTrue || available == nil || available.Status != metav1.ConditionTrue:
		st.wait(muster.ReasonApplying, "the cluster's agent has not applied everything yet%s", silence(mc))
	case st.leftOut > 0:
		st.ready = true
		st.wait(muster.ReasonTooManyKeys, "%d keys have no access, as there is no room for more: shorten the lifetime of access, or split the cloud", st.leftOut)
	default:
		st.ready = true
	}
}

// whyNotApplied is what the agent says of the first object that it could not
// apply.
func whyNotApplied(w *workv1.ManifestWork) string {
	for _, m := range w.Status.ResourceStatus.Manifests {
		if c := meta.FindStatusCondition(m.Conditions, work.ConditionApplied); c != nil && c.Status == metav1.ConditionFalse {
			return fmt.Sprintf("%s %s: %s", m.ResourceMeta.Kind, m.ResourceMeta.Name, c.Message)
		}
	}
	return "the agent could not apply everything; see the status of the ManifestWork " + w.Name
}

// silence says since when a cluster's agent gives no sign of life, if it does not.
func silence(mc *clusterv1.ManagedCluster) string {
	available := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable)
	switch {
	case available == nil:
		return "; the cluster has not joined"
	case available.Status == metav1.ConditionUnknown:
		return "; it gives no sign of life since " + available.LastTransitionTime.UTC().Format("2006-01-02 15:04:05 MST")
	}
	return ""
}

package admission

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// managedClusters completes and checks ManagedClusters.
type managedClusters struct {
	writes
	*server
	clock clock.PassiveClock
	// defaultSet gives clusters without a set the default one.
	defaultSet bool
	// cleanResources keeps deleted clusters until their namespace is empty.
	cleanResources bool
}

// Admit completes a ManagedCluster: it sets the time at which taints were
// added, and gives a cluster without a set the default one. It also adds what
// the controllers would otherwise add in separate writes: the finalizers, and
// the taint of a cluster whose agent has not reported yet.
func (p managedClusters) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, cluster.GroupName, "managedclusters") {
		return nil
	}
	now, before, err := objects[clusterv1.ManagedCluster](a)
	if err != nil {
		return err
	}
	object := a.GetObject().(*unstructured.Unstructured)
	if now.DeletionTimestamp != nil {
		// A deleted object loses its finalizers one by one; none may come back.
		return p.admitTaints(object, &now, &before, a.GetOperation())
	}
	if a.GetOperation() == admission.Create && !slices.ContainsFunc(now.Spec.Taints, isUnreachable) {
		now.Spec.Taints = append(now.Spec.Taints, clusterv1.Taint{Key: cluster.UnreachableTaint, Effect: clusterv1.TaintEffectNoSelect})
	}
	if err := p.admitTaints(object, &now, &before, a.GetOperation()); err != nil {
		return err
	}
	if p.defaultSet && now.Labels[cluster.ClusterSetLabel] == "" {
		if err := set(object, cluster.DefaultSet, "metadata", "labels", cluster.ClusterSetLabel); err != nil {
			return err
		}
	}
	finalizers := slices.Clone(now.Finalizers)
	if p.cleanResources && a.GetOperation() == admission.Create && !slices.Contains(finalizers, cluster.ResourceCleanupFinalizer) {
		finalizers = append(finalizers, cluster.ResourceCleanupFinalizer)
	}
	if now.Spec.AcceptsClient() && !slices.Contains(finalizers, cluster.APIResourceCleanupFinalizer) {
		finalizers = append(finalizers, cluster.APIResourceCleanupFinalizer)
	}
	if len(finalizers) != len(now.Finalizers) {
		object.SetFinalizers(finalizers)
	}
	return nil
}

func isUnreachable(t clusterv1.Taint) bool { return t.Key == cluster.UnreachableTaint }

// admitTaints sets the timeAdded of new and changed taints. It refuses requests
// that set it themselves. Taints are identified by their keys.
func (p managedClusters) admitTaints(object *unstructured.Unstructured, now, before *clusterv1.ManagedCluster, op admission.Operation) error {
	taints, forbidden := stampTaints(now.Spec.Taints, before.Spec.Taints, op == admission.Create, p.clock.Now())
	if len(forbidden) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("It is not allowed to set TimeAdded of Taint %q.", strings.Join(forbidden, ",")))
	}
	if len(taints) == 0 {
		return nil
	}
	list := make([]any, 0, len(taints))
	for _, t := range taints {
		m := map[string]any{"key": t.Key, "effect": string(t.Effect)}
		if t.TimeAdded != nil {
			m["timeAdded"] = t.TimeAdded.UTC().Format(time.RFC3339)
		}
		if t.Value != "" {
			m["value"] = t.Value
		}
		list = append(list, m)
	}
	return set(object, list, "spec", "taints")
}

// set sets a field. A null on the path to it counts as an empty object.
func set(object *unstructured.Unstructured, value any, path ...string) error {
	at := object.Object
	for i, name := range path[:len(path)-1] {
		next, ok := at[name].(map[string]any)
		if !ok && at[name] != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("%s is not an object, so %s cannot be set in it", strings.Join(path[:i+1], "."), path[i+1]))
		}
		if next == nil {
			next = map[string]any{}
			at[name] = next
		}
		at = next
	}
	at[path[len(path)-1]] = value
	return nil
}

// stampTaints returns the taints with their timeAdded, or the keys of the
// taints whose timeAdded the request may not set.
func stampTaints(taints, before []clusterv1.Taint, create bool, now time.Time) (stamped []clusterv1.Taint, forbidden []string) {
	stamped = slices.Clone(taints)
	for i := range stamped {
		t := &stamped[i]
		at := slices.IndexFunc(before, func(o clusterv1.Taint) bool { return o.Key == t.Key })
		untouched := slices.ContainsFunc(before, func(o clusterv1.Taint) bool {
			return o.Key == t.Key && o.Value == t.Value && o.Effect == t.Effect && o.TimeAdded.Equal(t.TimeAdded)
		})
		switch {
		case create:
			t.TimeAdded = &metav1.Time{Time: now}
		case untouched && !t.TimeAdded.IsZero():
			// Several taints may have one key, with different effects. Each may
			// be written back unchanged.
		case at < 0 || before[at].Value != t.Value || before[at].Effect != t.Effect:
			if !t.TimeAdded.IsZero() {
				forbidden = append(forbidden, t.Key)
				continue
			}
			t.TimeAdded = &metav1.Time{Time: now}
		case !t.TimeAdded.Equal(before[at].TimeAdded):
			forbidden = append(forbidden, t.Key)
		}
	}
	return stamped, forbidden
}

// Validate checks names, addresses, and whether the user may accept the cluster
// and move it between sets.
func (p managedClusters) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, cluster.GroupName, "managedclusters") {
		return nil
	}
	now, before, err := objects[clusterv1.ManagedCluster](a)
	if err != nil {
		return err
	}
	accept := now.Spec.AcceptsClient() && !before.Spec.AcceptsClient()
	if err := checkManagedCluster(&now, a.GetOperation() == admission.Create, accept); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if bound := cluster.BoundClusters(a.GetUserInfo().GetGroups()); len(bound) > 0 && !slices.Contains(bound, now.Name) {
		return forbidden(a, "the bootstrap token of user %q is bound to %s", a.GetUserInfo().GetName(), namesOf(bound))
	}
	if accept {
		if err := p.checkAccept(ctx, a, now.Name); err != nil {
			return err
		}
	}
	was, is := before.Labels[cluster.ClusterSetLabel], now.Labels[cluster.ClusterSetLabel]
	if was == is || a.GetOperation() == admission.Create && p.fromToken(a.GetUserInfo(), is) {
		return nil
	}
	for _, set := range []string{was, is} {
		if set != "" && !p.may(ctx, a.GetUserInfo(), authorizer.AttributesRecord{
			Verb: "create", APIGroup: cluster.GroupName, Resource: "managedclustersets", Subresource: "join", Name: set,
		}) {
			return forbidden(a, "user %q "+cluster.RefusedSetMembership+" %q", a.GetUserInfo().GetName(), set)
		}
	}
	return nil
}

// fromToken reports whether the user's bootstrap token puts its clusters into
// the set. The maker of the token has decided that.
func (p managedClusters) fromToken(u user.Info, set string) bool {
	scope, ok, err := p.tokenScope(u)
	return err == nil && ok && scope.Labels[cluster.ClusterSetLabel] == set && set != ""
}

// checkManagedCluster checks what does not depend on the user. A bad name is
// only refused at creation and acceptance, because an existing object with such
// a name must remain deletable.
func checkManagedCluster(c *clusterv1.ManagedCluster, create, accept bool) error {
	if problems := validation.IsDNS1123Label(c.Name); create && len(problems) > 0 {
		return fmt.Errorf("metadata.name format is not correct: %s", strings.Join(problems, ","))
	}
	if err := cluster.NewName(c.Name); err != nil && create {
		return err
	}
	if err := cluster.ReservedName(c.Name); err != nil && accept {
		return err
	}
	for _, config := range c.Spec.ManagedClusterClientConfigs {
		if u, err := url.Parse(config.URL); err != nil || u.Scheme != "https" {
			return fmt.Errorf("url %q is invalid in client configs", config.URL)
		}
	}
	return nil
}

// checkAccept checks whether the user may accept the cluster, and whether the
// namespace in which its agent will work belongs to the cluster. The hub
// creates this namespace at the acceptance, or it is left from an earlier
// cluster with the same name. A namespace with another purpose must not be
// opened to the agent.
func (p managedClusters) checkAccept(ctx context.Context, a admission.Attributes, name string) error {
	ns, err := p.namespace(ctx, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return apierrors.NewInternalError(fmt.Errorf("read the namespace %q, which the cluster would get: %w", name, err))
	}
	exists := err == nil
	if exists && ns.Status.Phase == corev1.NamespaceTerminating {
		return forbidden(a, "cluster namespace %q is terminating", name)
	}
	if !p.may(ctx, a.GetUserInfo(), authorizer.AttributesRecord{
		Verb: "update", APIGroup: cluster.RegisterGroupName, Resource: "managedclusters", Subresource: "accept", Name: name,
	}) {
		return apierrors.NewForbidden(schema.GroupResource{Group: cluster.GroupName, Resource: "managedclusters/accept"}, name,
			fmt.Errorf("user %q "+cluster.RefusedAcceptance, a.GetUserInfo().GetName()))
	}
	if exists {
		if err := cluster.NamespaceOf(name, ns.Labels); err != nil {
			return apierrors.NewForbidden(a.GetResource().GroupResource(), name, err)
		}
	}
	return nil
}

// setBindings checks ManagedClusterSetBindings.
type setBindings struct {
	writes
	*server
}

// Validate checks that a binding has the name of its set, and that its creator
// may bind the set.
func (p setBindings) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, cluster.GroupName, "managedclustersetbindings") {
		return nil
	}
	binding, _, err := objects[clusterv1beta2.ManagedClusterSetBinding](a)
	if err != nil {
		return err
	}
	set := binding.Spec.ClusterSet
	if binding.Name != set {
		return apierrors.NewBadRequest("The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet")
	}
	if a.GetOperation() == admission.Create && !p.may(ctx, a.GetUserInfo(), authorizer.AttributesRecord{
		Verb: "create", APIGroup: cluster.GroupName, Resource: "managedclustersets", Subresource: "bind", Name: set,
	}) {
		return forbidden(a, "user %q "+cluster.RefusedSetBinding+" %q", a.GetUserInfo().GetName(), set)
	}
	return nil
}

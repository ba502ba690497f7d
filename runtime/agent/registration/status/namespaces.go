package status

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

const (
	managed    = "true"
	notManaged = "false"
)

// namespaces keeps the namespaces that the cluster's sets want in it.
type namespaces struct {
	client client.Client
	// label marks those of this hub.
	label string
}

// apply makes or marks the wanted namespaces and reports with the conditions of
// each entry. present are the namespaces that carry the mark.
func (n namespaces) apply(ctx context.Context, wanted []clusterv1.ClusterSetManagedNamespaceConfig, present []*corev1.Namespace) {
	done := map[string]error{}
	for i := range wanted {
		name := wanted[i].Name
		if _, ok := done[name]; !ok { // several sets may want the same one
			done[name] = n.ensure(ctx, name, present)
		}
		meta.SetStatusCondition(&wanted[i].Conditions, namespaceCondition(done[name]))
	}
}

func namespaceCondition(err error) metav1.Condition {
	if err != nil {
		return metav1.Condition{
			Type: cluster.ConditionNamespaceAvailable, Status: metav1.ConditionFalse,
			Reason: cluster.ReasonNamespaceApplyFailed, Message: err.Error(),
		}
	}
	return metav1.Condition{
		Type: cluster.ConditionNamespaceAvailable, Status: metav1.ConditionTrue,
		Reason: cluster.ReasonNamespaceApplied, Message: cluster.MessageNamespaceApplied,
	}
}

func (n namespaces) ensure(ctx context.Context, name string, present []*corev1.Namespace) error {
	if slices.ContainsFunc(present, func(ns *corev1.Namespace) bool {
		return ns.Name == name && ns.Labels[n.label] == managed
	}) {
		return nil
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{n.label: managed}}}
	err := n.client.Create(ctx, ns)
	if apierrors.IsAlreadyExists(err) {
		return n.mark(ctx, name, managed)
	}
	if err != nil {
		return fmt.Errorf("make the namespace %s: %w", name, err)
	}
	return nil
}

// release marks namespaces as no longer wanted. They stay, with all that is in
// them.
func (n namespaces) release(ctx context.Context, wanted []clusterv1.ClusterSetManagedNamespaceConfig, present []*corev1.Namespace) error {
	for _, ns := range unwanted(n.label, wanted, present) {
		if err := client.IgnoreNotFound(n.mark(ctx, ns, notManaged)); err != nil {
			return err
		}
	}
	return nil
}

// unwanted returns the names of the marked namespaces that no set wants.
func unwanted(label string, wanted []clusterv1.ClusterSetManagedNamespaceConfig, present []*corev1.Namespace) []string {
	var names []string
	for _, ns := range present {
		if ns.Labels[label] == managed && !slices.ContainsFunc(wanted, func(w clusterv1.ClusterSetManagedNamespaceConfig) bool { return w.Name == ns.Name }) {
			names = append(names, ns.Name)
		}
	}
	return names
}

func (n namespaces) mark(ctx context.Context, name, value string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, n.label, value)
	if err := n.client.Patch(ctx, ns, client.RawPatch(mergePatch, patch)); err != nil {
		return fmt.Errorf("label the namespace %s: %w", name, err)
	}
	return nil
}

// stripNamespace leaves the name and the labels.
func stripNamespace(ns *corev1.Namespace) {
	ns.Annotations, ns.Spec, ns.Status = nil, corev1.NamespaceSpec{}, corev1.NamespaceStatus{}
}

func sameLabel(label string) func(a, b *corev1.Namespace) bool {
	return func(a, b *corev1.Namespace) bool { return a.Labels[label] == b.Labels[label] }
}

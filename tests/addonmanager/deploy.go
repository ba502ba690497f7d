package addonmanager

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// bind gives the agent its role in the cluster's namespace on the hub, as soon as the
// registration says who the agent is.
func (m *Manager) bind(ctx context.Context, a *unstructured.Unstructured) error {
	subjects := m.subjects(a)
	if len(subjects) == 0 {
		return nil
	}
	owner := metav1.OwnerReference{APIVersion: a.GetAPIVersion(), Kind: a.GetKind(), Name: a.GetName(), UID: a.GetUID()}
	meta := metav1.ObjectMeta{Namespace: a.GetNamespace(), Name: m.Name + "-agent-role", OwnerReferences: []metav1.OwnerReference{owner}}
	_, err := m.kube.RbacV1().Roles(meta.Namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "create"}},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	bindings := m.kube.RbacV1().RoleBindings(meta.Namespace)
	have, err := bindings.Get(ctx, meta.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = bindings.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}, Subjects: subjects,
		}, metav1.CreateOptions{})
	case err == nil && fmt.Sprint(have.Subjects) != fmt.Sprint(subjects):
		have.Subjects = subjects
		_, err = bindings.Update(ctx, have, metav1.UpdateOptions{})
	}
	return err
}

// subjects are those of the stored registration for the hub.
func (m *Manager) subjects(a *unstructured.Unstructured) (out []rbacv1.Subject) {
	registrations, _, _ := unstructured.NestedSlice(a.Object, "status", "registrations")
	for _, r := range registrations {
		registration, _ := r.(map[string]any)
		if client, ok := registration["kubeClient"].(map[string]any); ok {
			registration = client
		} else if registration["signerName"] != kubeSigner {
			continue
		}
		if user, _, _ := unstructured.NestedString(registration, "subject", "user"); user != "" {
			out = append(out, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
		}
	}
	return out
}

// deploy brings the agent into the cluster with a work, and says how that goes by what
// the work reports.
func (m *Manager) deploy(ctx context.Context, a *unstructured.Unstructured) error {
	name := "addon-" + m.Name + "-deploy-0"
	there, err := m.objects.Resource(works()).Namespace(a.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = m.objects.Resource(works()).Namespace(a.GetNamespace()).Create(ctx, m.work(a, name), metav1.CreateOptions{})
	}
	if err != nil || there == nil {
		return err
	}
	if conditionOf(there, "Applied") == "True" {
		setCondition(a, "ManifestApplied", "True", "AddonManifestApplied", "manifests of addon are applied successfully")
	}
	if ready := readyReplicas(there); ready > 0 {
		setCondition(a, "Available", "True", "ProbeAvailable", m.Name+" add-on is available.")
	} else if conditionOf(there, "Available") == "True" {
		setCondition(a, "Available", "False", "ProbeUnavailable", "Probe addon unavailable")
	}
	return nil
}

func (m *Manager) work(a *unstructured.Unstructured, name string) *unstructured.Unstructured {
	labels := map[string]any{"app": m.Name}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
		"metadata": map[string]any{
			"namespace": a.GetNamespace(), "name": name, "labels": map[string]any{addOnLabel: m.Name},
			"ownerReferences": []any{map[string]any{
				"apiVersion": a.GetAPIVersion(), "kind": a.GetKind(), "name": a.GetName(), "uid": string(a.GetUID()), "controller": true, "blockOwnerDeletion": true,
			}},
		},
		"spec": map[string]any{
			"workload": map[string]any{"manifests": []any{map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": Namespace, "name": m.Name},
				"spec": map[string]any{"replicas": int64(1), "selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
					"metadata": map[string]any{"labels": labels},
					"spec":     map[string]any{"containers": []any{map[string]any{"name": "agent", "image": "example.org/agent"}}},
				}},
			}}},
			"manifestConfigs": []any{map[string]any{
				"resourceIdentifier": map[string]any{"group": "apps", "resource": "deployments", "namespace": Namespace, "name": m.Name},
				"feedbackRules":      []any{map[string]any{"type": "WellKnownStatus"}},
			}},
		},
	}}
}

func conditionOf(o *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if have, ok := c.(map[string]any); ok && have["type"] == kind {
			status, _ := have["status"].(string)
			return status
		}
	}
	return ""
}

// readyReplicas is what the work reports of the Deployment.
func readyReplicas(work *unstructured.Unstructured) int64 {
	manifests, _, _ := unstructured.NestedSlice(work.Object, "status", "resourceStatus", "manifests")
	for _, m := range manifests {
		manifest, _ := m.(map[string]any)
		values, _, _ := unstructured.NestedSlice(manifest, "statusFeedback", "values")
		for _, v := range values {
			value, _ := v.(map[string]any)
			if value["name"] == "ReadyReplicas" {
				n, _, _ := unstructured.NestedInt64(value, "fieldValue", "integer")
				return n
			}
		}
	}
	return 0
}

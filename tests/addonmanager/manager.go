// Package addonmanager is an add-on's manager as others write them: it knows the API of
// Open Cluster Management, and of muster nothing. With client-go alone it does what
// upstream's framework does for an add-on that runs beside the hub. The tests run it
// against muster's hub and agents.
package addonmanager

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	group        = "addon.open-cluster-management.io"
	kubeSigner   = "kubernetes.io/kube-apiserver-client"
	addOnLabel   = "open-cluster-management.io/addon-name"
	clusterLabel = "open-cluster-management.io/cluster-name"
	// Namespace is where the add-on's agent runs, in managed clusters.
	Namespace = "open-cluster-management-agent-addon"
)

// Manager manages one add-on.
type Manager struct {
	// Name is the add-on's, Version that of the API that the manager speaks: v1beta1
	// or v1alpha1.
	Name, Version string
	// CA and Key sign for the add-on's own signer.
	CA  *x509.Certificate
	Key *rsa.PrivateKey
	// Now is the manager's clock, Lifetime that of the certificates that it signs.
	Now      func() time.Time
	Lifetime time.Duration
	// Report gets the errors of passes.
	Report func(error)

	objects dynamic.Interface
	kube    kubernetes.Interface
}

// Signer is the add-on's own.
func (m *Manager) Signer() string { return "example.org/" + m.Name }

func (m *Manager) addOns() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: m.Version, Resource: "managedclusteraddons"}
}

func works() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}
}

func requests() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"}
}

// Run manages the add-on until ctx ends.
func (m *Manager) Run(ctx context.Context, config *rest.Config) (err error) {
	if m.objects, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	if m.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	wake := make(chan struct{}, 1)
	something := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(m.objects, 0, metav1.NamespaceAll, nil)
	for _, kind := range []schema.GroupVersionResource{m.addOns(), works(), requests()} {
		if _, err := factory.ForResource(kind).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { something() }, UpdateFunc: func(any, any) { something() }, DeleteFunc: func(any) { something() },
		}); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for {
		select {
		case <-ctx.Done():
			factory.Shutdown()
			return nil
		case <-wake:
		}
		if err := m.pass(ctx); err != nil && ctx.Err() == nil {
			if !apierrors.IsConflict(err) {
				m.Report(err)
			}
			time.AfterFunc(100*time.Millisecond, something)
		}
	}
}

// pass looks at everything once.
func (m *Manager) pass(ctx context.Context) error {
	list, err := m.objects.Resource(m.addOns()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if a := &list.Items[i]; a.GetName() == m.Name {
			if err := m.manage(ctx, a); err != nil {
				return fmt.Errorf("manage the add-on in %s: %w", a.GetNamespace(), err)
			}
		}
	}
	return m.certify(ctx)
}

// manage does what there is to do for the add-on in one cluster.
func (m *Manager) manage(ctx context.Context, a *unstructured.Unstructured) error {
	if owners := a.GetOwnerReferences(); len(owners) == 0 || owners[0].Kind != "ClusterManagementAddOn" || a.GetDeletionTimestamp() != nil {
		return nil // as upstream's: the hub gives the add-on its owner
	}
	before, _, err := unstructured.NestedMap(a.Object, "status")
	if err != nil {
		return err
	}
	status := a.DeepCopy()
	if err := m.bind(ctx, a); err != nil {
		return err
	}
	m.register(status)
	if err := m.deploy(ctx, status); err != nil {
		return err
	}
	after, _, err := unstructured.NestedMap(status.Object, "status")
	if err != nil || same(before, after) {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": a.GetUID(), "resourceVersion": a.GetResourceVersion()}, "status": after,
	})
	if err != nil {
		return err
	}
	_, err = m.objects.Resource(m.addOns()).Namespace(a.GetNamespace()).Patch(ctx, a.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func same(a, b map[string]any) bool {
	x, err := json.Marshal(a)
	y, other := json.Marshal(b)
	return err == nil && other == nil && string(x) == string(y)
}

// register says which credentials the agent gets. What the agent has written of its
// driver, and of its subject with the driver token, stays.
func (m *Manager) register(a *unstructured.Unstructured) {
	user, groups := m.Subject(a.GetNamespace())
	subject := map[string]any{"user": user, "groups": []any{groups[0], groups[1]}}
	status, _ := a.Object["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
		a.Object["status"] = status
	}
	had, _ := status["registrations"].([]any)
	var first map[string]any
	if len(had) > 0 {
		first, _ = had[0].(map[string]any)
	}
	var forHub, signed map[string]any
	if m.Version == "v1alpha1" {
		forHub = map[string]any{"signerName": kubeSigner, "subject": subject}
		if status["kubeClientDriver"] == "token" {
			forHub["subject"] = first["subject"]
		}
		signed = map[string]any{"signerName": m.Signer(), "subject": map[string]any{"user": user, "organizationUnit": []any{"unit"}}}
	} else {
		client := map[string]any{"subject": subject}
		if have, ok := first["kubeClient"].(map[string]any); ok && have["driver"] != nil {
			client["driver"] = have["driver"]
			if have["driver"] == "token" {
				client["subject"] = have["subject"]
			}
		}
		forHub = map[string]any{"type": "kubeClient", "kubeClient": client}
		signed = map[string]any{"type": "customSigner", "customSigner": map[string]any{
			"signerName": m.Signer(), "subject": map[string]any{"user": user, "organizationUnits": []any{"unit"}},
		}}
	}
	status["registrations"] = []any{forHub, signed}
	status["namespace"] = Namespace
	status["healthCheck"] = map[string]any{"mode": "Customized"}
	setCondition(a, "RegistrationApplied", "True", "SetPermissionApplied", "Registration of the addon agent is configured")
}

// Subject is who the agent in a cluster is on the hub.
func (m *Manager) Subject(clusterName string) (user string, groups []string) {
	groups = []string{
		"system:open-cluster-management:cluster:" + clusterName + ":addon:" + m.Name, "system:open-cluster-management:addon:" + m.Name,
	}
	return groups[0] + ":agent:" + m.Name, groups
}

// setCondition changes one condition; the others stay.
func setCondition(a *unstructured.Unstructured, kind, status, reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(a.Object, "status", "conditions")
	wanted := map[string]any{"type": kind, "status": status, "reason": reason, "message": message}
	for i, c := range conditions {
		if have, ok := c.(map[string]any); ok && have["type"] == kind {
			if wanted["lastTransitionTime"] = have["lastTransitionTime"]; have["status"] != status {
				wanted["lastTransitionTime"] = metav1.Now().UTC().Format(time.RFC3339)
			}
			conditions[i] = wanted
			_ = unstructured.SetNestedSlice(a.Object, conditions, "status", "conditions")
			return
		}
	}
	wanted["lastTransitionTime"] = metav1.Now().UTC().Format(time.RFC3339)
	_ = unstructured.SetNestedSlice(a.Object, append(conditions, any(wanted)), "status", "conditions")
}

package addonmanager

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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

// certify approves the requests of the add-on's agents, and signs those for its own
// signer.
func (m *Manager) certify(ctx context.Context) error {
	all := m.kube.CertificatesV1().CertificateSigningRequests()
	list, err := all.List(ctx, metav1.ListOptions{LabelSelector: addOnLabel + "=" + m.Name})
	if err != nil {
		return err
	}
	for i := range list.Items {
		r := &list.Items[i]
		parsed, err := m.check(r)
		if err != nil || len(r.Status.Certificate) > 0 {
			continue // it waits for an administrator
		}
		if len(r.Status.Conditions) == 0 {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: "said the add-on's manager",
			})
			if r, err = all.UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		if r.Spec.SignerName != m.Signer() {
			continue // the hub signs
		}
		if r.Status.Certificate, err = m.sign(parsed); err != nil {
			return err
		}
		if _, err := all.UpdateStatus(ctx, r, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// check reads a request that the agent of a cluster has made for the add-on.
func (m *Manager) check(r *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	clusterName := r.Labels[clusterLabel]
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || clusterName == "" || !strings.HasPrefix(r.Spec.Username, "system:open-cluster-management:"+clusterName+":") {
		return nil, errors.New("it is not an agent's")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	user, groups := m.Subject(clusterName)
	organizations := slices.Sorted(slices.Values(parsed.Subject.Organization))
	slices.Sort(groups)
	switch {
	case parsed.Subject.CommonName != user:
		return nil, errors.New("its name is another one's")
	case r.Spec.SignerName == kubeSigner && !slices.Equal(organizations, groups):
		return nil, errors.New("its groups are others")
	case r.Spec.SignerName != kubeSigner && r.Spec.SignerName != m.Signer():
		return nil, errors.New("its signer is another one")
	}
	return parsed, nil
}

func (m *Manager) sign(r *x509.CertificateRequest) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: r.Subject, DNSNames: r.DNSNames, NotBefore: m.Now(), NotAfter: m.Now().Add(m.Lifetime),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, m.CA, r.PublicKey, m.Key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

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

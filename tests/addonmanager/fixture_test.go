package addonmanager

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

var (
	// program is the path of the built muster, hub the hub that the tests share.
	program string
	hub     testfleet.Hub
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the hub:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "muster-addonmanager-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if program, err = (&testhub.Builder{}).Path(dir); err != nil {
		return 1, err
	}
	process, err := testhub.StartHub(program, filepath.Join(dir, "hub"))
	if err != nil {
		return 1, err
	}
	defer func() { _ = process.Kill() }()
	if hub.Admin, err = clientcmd.BuildConfigFromFlags("", process.Kubeconfig); err != nil {
		return 1, err
	}
	hub.Admin.QPS = -1
	return m.Run(), nil
}

// fleet is a managed cluster, an add-on, and its manager.
type fleet struct {
	testing.TB
	ctx     context.Context
	manager *Manager
	// cluster is the cluster's name, admin the administrator of the hub, local that of
	// the managed cluster.
	cluster string
	admin   dynamic.Interface
	local   kubernetes.Interface
	config  *rest.Config
	// kubeconfig is that of the managed cluster.
	kubeconfig string
	agent      *testhub.Process
	start      func() *testhub.Process
}

// newFleet starts a dev cluster, and an add-on's manager with the rights that such a
// manager needs, and no others.
func newFleet(t testing.TB, name, version string) *fleet {
	t.Helper()
	f := &fleet{TB: t, ctx: context.Background(), cluster: name}
	devcluster, err := testhub.StartCluster(program, filepath.Join(t.TempDir(), "cluster"))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = devcluster.Kill() })
	f.kubeconfig = devcluster.Kubeconfig
	f.config, err = clientcmd.BuildConfigFromFlags("", devcluster.Kubeconfig)
	testkit.Must(t, err)
	f.config.QPS = -1
	f.local = testfleet.Clientset(t, f.config)
	f.admin, err = dynamic.NewForConfig(hub.Admin)
	testkit.Must(t, err)
	for _, namespace := range []string{Namespace, cluster.AgentNamespace} {
		_, err = f.local.CoreV1().Namespaces().Create(f.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		testkit.Must(t, client.IgnoreAlreadyExists(err))
	}
	f.manager = newManager(t, name+"-addon", version)
	return f
}

// newManager starts an add-on's manager.
func newManager(t testing.TB, name, version string) *Manager {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	testkit.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the add-on's CA"}, NotAfter: time.Now().Add(1000 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	testkit.Must(t, err)
	ca, err := x509.ParseCertificate(der)
	testkit.Must(t, err)
	m := &Manager{Name: name, Version: version, CA: ca, Key: key, Now: time.Now, Lifetime: 24 * time.Hour, Report: func(err error) { t.Logf("the manager: %v", err) }}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	config := hub.Tenant(t, "default", name)
	grant(t, name)
	running.Go(func() { testkit.Must(t, m.Run(ctx, config)) })
	return m
}

// grant gives a manager's service account what a manager of add-ons needs on a hub.
func grant(t testing.TB, name string) {
	t.Helper()
	k, ctx := testfleet.Clientset(t, hub.Admin).RbacV1(), context.Background()
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	rules := []rbacv1.PolicyRule{
		rule("", []string{"configmaps", "events"}, "get", "list", "watch", "create", "update", "patch", "delete"),
		rule("rbac.authorization.k8s.io", []string{"roles", "rolebindings"}, "get", "list", "watch", "create", "update", "delete"),
		rule("coordination.k8s.io", []string{"leases"}, "get", "list", "watch", "create", "update", "patch"),
		rule("certificates.k8s.io", []string{"certificatesigningrequests"}, "get", "list", "watch"),
		rule("certificates.k8s.io", []string{"certificatesigningrequests/approval", "certificatesigningrequests/status"}, "update"),
		rule("certificates.k8s.io", []string{"signers"}, "approve", "sign"),
		rule("cluster.open-cluster-management.io", []string{"managedclusters"}, "get", "list", "watch"),
		rule("work.open-cluster-management.io", []string{"manifestworks"}, "get", "list", "watch", "create", "update", "patch", "delete"),
		rule(group, []string{"managedclusteraddons"}, "get", "list", "watch", "update"),
		rule(group, []string{"managedclusteraddons/finalizers"}, "update"),
		rule(group, []string{"managedclusteraddons/status"}, "patch"),
		rule(group, []string{"clustermanagementaddons"}, "get", "list", "watch", "patch"),
		rule(group, []string{"clustermanagementaddons/status"}, "patch"),
		rule(group, []string{"addondeploymentconfigs"}, "get", "list", "watch"),
	}
	_, err := k.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	testkit.Must(t, err)
	_, err = k.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}, metav1.CreateOptions{})
	testkit.Must(t, err)
}

// join registers the cluster on the hub and starts its agent.
func (f *fleet) join(flags ...string) {
	f.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.cluster}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}}
	testkit.Must(f, testfleet.Client(f, hub.Admin).Create(f.ctx, mc))
	_, token := hub.BootstrapToken(f, cluster.BoundBootstrapGroup(f.cluster), nil)
	content, err := kubeconfig.Config{Cluster: "hub", User: "bootstrap", Server: hub.Admin.Host, CAData: hub.Admin.CAData, Token: token}.YAML()
	testkit.Must(f, err)
	bootstrap := filepath.Join(f.TempDir(), "bootstrap")
	testkit.Must(f, os.WriteFile(bootstrap, content, 0o600))
	f.start = func() *testhub.Process {
		agent, err := testhub.StartAgent(program, f.cluster, bootstrap, f.kubeconfig, flags...)
		testkit.Must(f, err)
		f.Cleanup(func() { _ = agent.Kill() })
		return agent
	}
	f.agent = f.start()
	f.available()
}

func (f *fleet) available() {
	f.Helper()
	f.eventually(func() error {
		mc, err := f.admin.Resource(schema.GroupVersionResource{Group: cluster.GroupName, Version: "v1", Resource: "managedclusters"}).Get(f.ctx, f.cluster, metav1.GetOptions{})
		if err == nil && conditionOf(mc, cluster.ConditionAvailable) != "True" {
			err = errors.New("the cluster is not available")
		}
		return err
	})
}

func (f *fleet) eventually(check func() error) {
	f.Helper()
	testkit.Eventually(f, func() error {
		err := check()
		if err != nil && f.agent != nil {
			err = fmt.Errorf("%w\nthe agent's log:\n%s", err, f.agent.Log())
		}
		return err
	})
}

// install makes the add-on, and brings it into the cluster.
func (f *fleet) install() {
	f.Helper()
	f.make("clustermanagementaddons", "ClusterManagementAddOn", "", map[string]any{"installStrategy": map[string]any{"type": "Manual"}})
	f.make("managedclusteraddons", "ManagedClusterAddOn", f.cluster, map[string]any{})
}

func (f *fleet) resource(plural, namespace string) dynamic.ResourceInterface {
	all := f.admin.Resource(schema.GroupVersionResource{Group: group, Version: f.manager.Version, Resource: plural})
	if namespace == "" {
		return all
	}
	return all.Namespace(namespace)
}

func (f *fleet) make(plural, kind, namespace string, spec map[string]any) {
	f.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/" + f.manager.Version, "kind": kind, "spec": spec}}
	o.SetName(f.manager.Name)
	o.SetNamespace(namespace)
	f.eventually(func() error {
		_, err := f.resource(plural, namespace).Create(f.ctx, o, metav1.CreateOptions{})
		return client.IgnoreAlreadyExists(err)
	})
}

// addOn is the add-on in the cluster.
func (f *fleet) addOn() *unstructured.Unstructured {
	f.Helper()
	a, err := f.resource("managedclusteraddons", f.cluster).Get(f.ctx, f.manager.Name, metav1.GetOptions{})
	testkit.Must(f, err)
	return a
}

// stored waits for a Secret of the add-on in the managed cluster that passes a check.
func (f *fleet) stored(name string, check func(*corev1.Secret) error) *corev1.Secret {
	f.Helper()
	var s *corev1.Secret
	f.eventually(func() (err error) {
		if s, err = f.local.CoreV1().Secrets(Namespace).Get(f.ctx, name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("%w, the add-on is %v", err, f.addOn().Object["status"])
		}
		return check(s)
	})
	return s
}

func has(keys ...string) func(*corev1.Secret) error {
	return func(s *corev1.Secret) error {
		for _, key := range keys {
			if len(s.Data[key]) == 0 {
				return fmt.Errorf("the Secret %s has no %s", s.Name, key)
			}
		}
		return nil
	}
}

func (f *fleet) hubSecret() string { return f.manager.Name + "-hub-kubeconfig" }

func (f *fleet) signedSecret() string {
	return f.manager.Name + "-example.org-" + f.manager.Name + "-client-cert"
}

func leaf(t testing.TB, s *corev1.Secret) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(s.Data["tls.crt"])
	if block == nil {
		t.Fatalf("the Secret %s has no certificate", s.Name)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	testkit.Must(t, err)
	return c
}

// uses tries a credential on the hub: the add-on's agent has a role in the cluster's
// namespace, and no other.
func (f *fleet) uses(config *rest.Config) {
	f.Helper()
	k := testfleet.Clientset(f, config)
	f.eventually(func() error {
		_, err := k.CoreV1().ConfigMaps(f.cluster).List(f.ctx, metav1.ListOptions{})
		return err
	})
	if _, err := k.CoreV1().ConfigMaps("default").List(f.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		f.Errorf("in another namespace: %v", err)
	}
}

package access

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

const (
	// tenant is the namespace on the hub, and cloudNamespace the one in the clusters.
	tenant, cloudNamespace = "team-a", "team-a-prod"
	// jo is the user.
	jo = "jo@example.com"
	// madeNamespace is the namespace in the clusters of the cloud whose keys the hub
	// makes.
	madeNamespace = "team-a-made"
	// chosen, made and odd are the labels of the clusters that the placements of the
	// clouds select.
	chosen, made, odd = "cloud", "made", "odd"
)

var (
	program string // the built muster
	hub     *hubWorld
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
	logging.Setup(context.Background(), os.Stderr, 0, false)
	dir, err := os.MkdirTemp("", "muster-access-")
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
	config, err := clientcmd.BuildConfigFromFlags("", process.Kubeconfig)
	if err != nil {
		return 1, err
	}
	config.QPS = -1
	hub = &hubWorld{
		Hub: testfleet.Hub{Admin: config}, kubeconfig: process.Kubeconfig, log: process.Log, process: process,
	}
	return m.Run(), nil
}

// hubWorld is the hub.
type hubWorld struct {
	testfleet.Hub
	kubeconfig string // the administrator's
	log        func() string
	process    *testhub.Process
}

func (h *hubWorld) admin(t testing.TB) client.Client { return testfleet.Client(t, h.Admin) }

// config is the configuration of a user of the hub, and as a client with it.
func (h *hubWorld) config(user string) *rest.Config {
	config := rest.CopyConfig(h.Admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return config
}

func (h *hubWorld) as(t testing.TB, user string) client.Client {
	return testfleet.Client(t, h.config(user))
}

// member is a managed cluster.
type member struct {
	t     testing.TB
	name  string
	admin client.Client
	// config is its administrator's.
	config    *rest.Config
	bootstrap string
	process   *testhub.Process
	agent     *testhub.Process
}

// prepare starts a dev cluster that the hub accepts, without an agent. The placements
// of the clouds with these labels select it.
func prepare(t testing.TB, name string, clouds ...string) *member {
	t.Helper()
	dir := t.TempDir()
	process, err := testhub.StartCluster(program, filepath.Join(dir, "cluster"))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = process.Kill() })
	config, err := clientcmd.BuildConfigFromFlags("", process.Kubeconfig)
	testkit.Must(t, err)
	config.QPS = -1
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)},
	}
	for _, label := range clouds {
		mc.Labels[label] = "yes"
	}
	testkit.Must(t, hub.admin(t).Create(t.Context(), mc))
	t.Cleanup(func() { _ = hub.admin(t).Delete(context.Background(), mc) })
	_, token := hub.BootstrapToken(t, cluster.BoundBootstrapGroup(name), nil)
	content, err := kubeconfig.Config{Cluster: "hub", User: "bootstrap", Server: hub.Admin.Host, CAData: hub.Admin.CAData, Token: token}.YAML()
	testkit.Must(t, err)
	bootstrap := filepath.Join(dir, "bootstrap.kubeconfig")
	testkit.Must(t, os.WriteFile(bootstrap, content, 0o600))
	return &member{t: t, name: name, admin: testfleet.Client(t, config), config: config, bootstrap: bootstrap, process: process}
}

// start starts the cluster's agent and waits until the cluster is available.
func (m *member) start(flags ...string) {
	m.t.Helper()
	m.startWith(append([]string{"--spoke-external-server-urls", m.config.Host}, flags...)...)
}

// startWith is start of an agent that does not say where users reach the cluster.
func (m *member) startWith(flags ...string) {
	m.t.Helper()
	agent, err := testhub.StartAgent(program, m.name, m.bootstrap, m.process.Kubeconfig, flags...)
	testkit.Must(m.t, err)
	m.agent = agent
	m.t.Cleanup(func() { _ = agent.Kill() })
	testkit.Eventually(m.t, func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := hub.admin(m.t).Get(m.t.Context(), client.ObjectKey{Name: m.name}, mc); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionAvailable) {
			return fmt.Errorf("the cluster %s is not available: %+v\n%s", m.name, mc.Status.Conditions, agent.Log())
		}
		return nil
	})
}

// oddUsers have names that break what puts them together carelessly: a path, a name
// in a kubeconfig, YAML, a certificate's subject.
func oddUsers() []string {
	return []string{
		"../../jo", "https://id.example/jo?x=1&y=2#z", "jo@a@b", ":jo: {x: [y]} # 'z' \"&*!|>%`", "Jörg \u202e漢字 😀", "-", "null", "~",
		strings.Repeat("n", 253), strings.Repeat("ü", 126),
	}
}

// clouds makes logical clouds that let their users read and write config maps and use pods: prod,
// where jo holds the keys, made, where the hub makes them, and odd, with odd users.
// It lets jo ask for access. All is in the namespace of a tenant.
func clouds(t testing.TB, tenant string) {
	t.Helper()
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}},
		&clusterv1beta2.ManagedClusterSetBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "global"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "global"},
		},
		&v1alpha1.AccessRole{
			ObjectMeta: metav1.ObjectMeta{Name: "writer"},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Verbs: []string{"*"},
				Resources: []string{"configmaps", "pods", "pods/log", "pods/exec", "pods/portforward"},
			}},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "users"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "muster:access-user"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: jo}},
		},
	}
	for name, x := range map[string]struct {
		label, namespace string
		keys             v1alpha1.KeyPolicy
		users            []string
	}{
		"prod": {chosen, cloudNamespace, v1alpha1.KeyUserHeld, []string{jo}},
		"made": {made, madeNamespace, v1alpha1.KeyHubMade, []string{jo}},
		"odd":  {odd, "team-a-odd", v1alpha1.KeyHubMade, oddUsers()},
	} {
		lc := &v1alpha1.LogicalCloud{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name},
			Spec: v1alpha1.LogicalCloudSpec{
				Placements: []v1alpha1.PlacementReference{{Name: x.label}},
				Namespace:  v1alpha1.CloudNamespace{Name: x.namespace},
				Grants:     []v1alpha1.Grant{{Role: "writer", Users: x.users}},
			},
		}
		lc.Spec.Access.KeyPolicy = x.keys
		objects = append(objects, &clusterv1beta1.Placement{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: x.label},
			// Clusters that are out of reach are selected, too.
			Spec: clusterv1beta1.PlacementSpec{
				Tolerations: []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists}},
				Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
					LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{x.label: "yes"}},
				}}},
			},
		}, lc)
	}
	for _, o := range objects {
		err := hub.admin(t).Create(t.Context(), o)
		if _, ok := o.(*v1alpha1.AccessRole); ok {
			err = client.IgnoreAlreadyExists(err) // by another tenant's
		}
		testkit.Must(t, err)
	}
	testfleet.AwaitRules(t, hub.config(jo), tenant, rbacv1.PolicyRule{
		APIGroups: []string{muster.GroupName}, Resources: []string{"accessrequests"}, Verbs: []string{"create"},
	})
}

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// world is a hub and its administrator.
type world struct {
	testfleet.Hub
	process *testhub.Process
}

// ownWorld starts a hub for one test.
func ownWorld(t testing.TB, flags ...string) *world {
	t.Helper()
	w, err := startWorld(filepath.Join(t.TempDir(), "hub"), flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.process.Kill() })
	return w
}

// admin is the administrator's client.
func (w *world) admin(t testing.TB) client.Client {
	t.Helper()
	return testfleet.Client(t, w.Admin)
}

// member is a managed cluster with a real agent as a process of its own.
type member struct {
	name string
	// config and admin are the managed cluster's administrator's.
	config *rest.Config
	admin  client.Client
	agent  *testhub.Process
}

// join starts a dev cluster and an agent process in it, and waits until it is
// available on the hub.
func (w *world) join(t testing.TB, name string, agentFlags ...string) *member {
	t.Helper()
	ctx := context.Background()
	dir := t.TempDir()
	devcluster, err := testhub.StartCluster(program, filepath.Join(dir, "cluster"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = devcluster.Kill() })
	config, err := clientcmd.BuildConfigFromFlags("", devcluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}}
	testkit.Must(t, w.admin(t).Create(ctx, mc))
	_, token := w.BootstrapToken(t, cluster.BoundBootstrapGroup(name), nil)
	content, err := kubeconfig.Config{Cluster: "hub", User: "bootstrap", Server: w.Admin.Host, CAData: w.Admin.CAData, Token: token}.YAML()
	testkit.Must(t, err)
	bootstrap := filepath.Join(dir, "bootstrap.kubeconfig")
	testkit.Must(t, os.WriteFile(bootstrap, content, 0o600))
	agent, err := testhub.StartAgent(program, name, bootstrap, devcluster.Kubeconfig, agentFlags...)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = agent.Kill() })
	testkit.Eventually(t, func() error {
		if err := w.admin(t).Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionAvailable) {
			return fmt.Errorf("the cluster %s is not available: %+v\n%s", name, mc.Status.Conditions, agent.Log())
		}
		return nil
	})
	return &member{name: name, config: config, admin: testfleet.Client(t, config), agent: agent}
}

// newWork is a work of some objects.
func newWork(t testing.TB, namespace, name string, objects ...any) *workv1.ManifestWork {
	t.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, o := range objects {
		raw, err := json.Marshal(o)
		testkit.Must(t, err)
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return w
}

// refused counts an attempt, and fails the test unless err is the API server's
// refusal: that the user may not, or that what they send is not taken.
func refused(t testing.TB, what string, err error) {
	t.Helper()
	attempts.Add(1)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err) {
		refusals.Add(1)
		return
	}
	t.Errorf("%s: got %v, want a refusal", what, err)
}

// refusedFor is refused, by a message with some words.
func refusedFor(t testing.TB, what string, err error, words ...string) {
	t.Helper()
	refused(t, what, err)
	for _, w := range words {
		if err != nil && !strings.Contains(err.Error(), w) {
			t.Errorf("%s: got %v, want a refusal with %q", what, err, w)
		}
	}
}

// soonRefused waits until a call is refused: the authorizer learns of a change of
// rights by a watch.
func soonRefused(t testing.TB, what string, call func() error) {
	t.Helper()
	attempts.Add(1)
	err := testkit.Poll(testkit.Timeout, func() error {
		if err := call(); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("got %w, want a refusal", err)
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	refusals.Add(1)
}

// harmless counts an attempt that is not a request to be refused, such as a work
// that must not get anything out of its cluster: it counts as refused when err
// is nil.
func harmless(t testing.TB, what string, err error) {
	t.Helper()
	attempts.Add(1)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	refusals.Add(1)
}

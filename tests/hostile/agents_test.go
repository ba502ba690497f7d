package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// held keeps an object until the test lets it go.
const held = "example.org/held"

// deny is what an administrator does with a cluster that was stolen.
func (w *world) deny(t testing.TB, name string) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	testkit.Must(t, w.admin(t).Patch(context.Background(), mc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hubAcceptsClient":false}}`))))
}

// secretWork is a work with something in it that others must not see.
func secretWork(t testing.TB, namespace, name string, finalizers ...string) *workv1.ManifestWork {
	t.Helper()
	w := newWork(t, namespace, name, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": "default"}, "stringData": map[string]any{"password": "hunter2"},
	})
	w.Finalizers = finalizers
	return w
}

// bindByHand gives all rights to a group, as an administrator may have done, or
// a program that failed to take them back.
func (w *world) bindByHand(t testing.TB, namespace, group string) {
	t.Helper()
	ctx := context.Background()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "by-hand-" + namespace}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}}
	for _, o := range []client.Object{
		role,
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-hand"}, RoleRef: ref, Subjects: subjects},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "by-hand-" + namespace}, RoleRef: ref, Subjects: subjects},
	} {
		testkit.Must(t, w.admin(t).Create(ctx, o))
		t.Cleanup(func() { _ = w.admin(t).Delete(ctx, o) })
	}
}

// getRaw sends a GET as it stands.
func getRaw(t testing.TB, config *rest.Config, path string, header ...string) (code int, body string, err error) {
	t.Helper()
	c, err := rest.HTTPClientFor(config)
	testkit.Must(t, err)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, config.Host+path, nil)
	testkit.Must(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(content), err
}

// Somebody has stolen a cluster, its agent's certificate included, and the
// administrator denies it.
func TestDeniedAgent(t *testing.T) {
	ctx := context.Background()
	const name = "denied-agent"
	config := hub.Joined(t, name, "a")
	agent, admin := testfleet.Client(t, config), hub.admin(t)
	for _, n := range []string{"before", "leaving"} {
		testkit.Must(t, admin.Create(ctx, secretWork(t, name, n, held)))
	}
	hub.bindByHand(t, name, cluster.Group(name))
	t.Cleanup(func() {
		for _, n := range []string{"before", "leaving", "after"} {
			_ = admin.Patch(ctx, secretWork(t, name, n), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
			_ = admin.Delete(ctx, secretWork(t, name, n))
		}
	})
	works := "/apis/work.open-cluster-management.io/v1/namespaces/" + name + "/manifestworks"
	// A watch that is open when the cluster is denied, for as long as the agent
	// likes.
	watching := make(chan string, 1)
	started := make(chan struct{})
	go func() {
		c, err := rest.HTTPClientFor(config)
		if err != nil {
			watching <- err.Error()
			return
		}
		resp, err := c.Get(config.Host + works + "?watch=true&timeoutSeconds=86400&resourceVersion=0")
		close(started)
		if err != nil {
			watching <- err.Error()
			return
		}
		defer func() { _ = resp.Body.Close() }()
		content, err := io.ReadAll(resp.Body)
		watching <- fmt.Sprint(string(content), err)
	}()
	<-started
	hub.deny(t, name)
	testkit.Must(t, admin.Delete(ctx, secretWork(t, name, "leaving")))
	soonRefused(t, "a denied agent watches its works", func() error {
		return agentWatch(t, config, name)
	})
	testkit.Must(t, admin.Create(ctx, secretWork(t, name, "after", held)))

	t.Run("has its watches ended", func(t *testing.T) {
		select {
		case seen := <-watching:
			err := error(nil)
			if strings.Contains(seen, `"name":"after"`) || !strings.Contains(seen, `"name":"before"`) {
				err = fmt.Errorf("it saw %s", seen)
			}
			harmless(t, "a denied agent sees a new work by an old watch", err)
		case <-time.After(testkit.Timeout):
			harmless(t, "a denied agent keeps its watch", errors.New("it is still open"))
		}
	})
	t.Run("sees works only when they are being deleted", func(t *testing.T) {
		for _, n := range []string{"before", "after"} {
			refused(t, "a denied agent reads the work "+n, agent.Get(ctx, types.NamespacedName{Namespace: name, Name: n}, &workv1.ManifestWork{}))
			refused(t, "a denied agent changes the work "+n, agent.Patch(ctx, secretWork(t, name, n), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
			refused(t, "a denied agent reports on the work "+n, agent.Status().Patch(ctx, secretWork(t, name, n), client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[]}}`))))
			// These would reveal what is in it by their errors.
			refused(t, "a denied agent compares the work "+n, agent.Patch(ctx, secretWork(t, name, n), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/workload/manifests/0/stringData/password","value":"guess"}]`))))
			refused(t, "a denied agent copies within the work "+n, agent.Patch(ctx, secretWork(t, name, n), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"copy","from":"/spec/workload/manifests/0/stringData/password","path":"/metadata/labels"}]`))))
			refused(t, "a denied agent applies the work "+n, agent.Patch(ctx, secretWork(t, name, n), client.RawPatch(types.ApplyPatchType, []byte(`{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"`+n+`"}}`)), client.FieldOwner("x")))
		}
		refused(t, "a denied agent lists works, some not being deleted", agent.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(name)))
		testkit.Must(t, agent.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(name), client.MatchingFields{"metadata.name": "leaving"}))
		testkit.Must(t, agent.Get(ctx, types.NamespacedName{Namespace: name, Name: "leaving"}, &workv1.ManifestWork{}))
		for _, accept := range []string{"application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/cbor", "*/*"} {
			for _, path := range []string{works, works + "/before", works + "/before/status", works + "?limit=1", works + "?fieldSelector=metadata.name=before", works + "?watch=0&resourceVersion=0", works + "?pretty=true&limit=500"} {
				_, body, err := getRaw(t, config, path, "Accept", accept, "Accept-Encoding", "identity")
				testkit.Must(t, err)
				if strings.Contains(body, "stringData") {
					err = fmt.Errorf("it got %s", body)
				}
				harmless(t, "a denied agent reads "+path+" as "+accept, err)
			}
		}
	})
	t.Run("gets nothing out of bindings that are left", func(t *testing.T) {
		refused(t, "a denied agent reads Secrets", agent.List(ctx, &corev1.SecretList{}))
		refused(t, "a denied agent reads another's works", agent.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace("kube-system")))
		refused(t, "a denied agent reads all works", agent.List(ctx, &workv1.ManifestWorkList{}))
		refused(t, "a denied agent reads all clusters", agent.List(ctx, &clusterv1.ManagedClusterList{}))
		refused(t, "a denied agent creates a work", agent.Create(ctx, secretWork(t, name, "own")))
		refused(t, "a denied agent deletes works", agent.DeleteAllOf(ctx, &workv1.ManifestWork{}, client.InNamespace(name)))
		refused(t, "a denied agent reads leases", agent.List(ctx, &coordinationv1.LeaseList{}, client.InNamespace(name)))
		refused(t, "a denied agent reads requests", agent.List(ctx, &certificatesv1.CertificateSigningRequestList{}))
		refused(t, "a denied agent accepts itself", agent.Patch(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hubAcceptsClient":true}}`))))
		refused(t, "a denied agent reports on itself", agent.Status().Patch(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[]}}`))))
		request, _ := testfleet.CertificateRequest(t, name, "b")
		refused(t, "a denied agent asks for a certificate", agent.Create(ctx, request))
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "more"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}}
		refused(t, "a denied agent binds a role", agent.Create(ctx, binding))
	})
	t.Run("cleans up behind what is being deleted", func(t *testing.T) {
		testkit.Must(t, agent.Patch(ctx, secretWork(t, name, "leaving"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		testkit.Eventually(t, func() error {
			if err := admin.Get(ctx, types.NamespacedName{Namespace: name, Name: "leaving"}, &workv1.ManifestWork{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the work is still there (%v)", err)
			}
			return nil
		})
	})
	t.Run("learns that it was denied", func(t *testing.T) {
		testkit.Eventually(t, func() error {
			mc := &clusterv1.ManagedCluster{}
			if err := agent.Get(ctx, types.NamespacedName{Name: name}, mc); err != nil {
				return err
			}
			for _, c := range mc.Status.Conditions {
				if c.Type == cluster.ConditionHubAccepted && c.Status == metav1.ConditionFalse && c.Reason == cluster.ReasonHubDenied {
					return nil
				}
			}
			return fmt.Errorf("conditions %+v", mc.Status.Conditions)
		})
	})
}

// agentWatch starts to watch works and returns when the hub has answered.
func agentWatch(t testing.TB, config *rest.Config, namespace string) error {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	testkit.Must(t, err)
	w, err := c.Watch(context.Background(), &workv1.ManifestWorkList{}, client.InNamespace(namespace))
	if err == nil {
		w.Stop()
	}
	return err
}

// An agent that was in no hurry to leave.
func TestAgentOfADeletedCluster(t *testing.T) {
	ctx := context.Background()
	const name = "deleted-agent"
	config := hub.Joined(t, name, "a")
	agent, admin := testfleet.Client(t, config), hub.admin(t)
	hub.bindByHand(t, name, cluster.Group(name))
	testkit.Must(t, admin.Create(ctx, secretWork(t, name, "held", held)))
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	testkit.Must(t, admin.Delete(ctx, mc))
	t.Run("while it goes", func(t *testing.T) {
		soonRefused(t, "the agent renews its lease", func() error {
			return agent.List(ctx, &coordinationv1.LeaseList{}, client.InNamespace(name))
		})
		refused(t, "the agent reads Secrets", agent.List(ctx, &corev1.SecretList{}, client.InNamespace(name)))
		request, _ := testfleet.CertificateRequest(t, name, "b")
		refused(t, "the agent asks for a certificate", agent.Create(ctx, request))
		testkit.Must(t, agent.Get(ctx, client.ObjectKeyFromObject(mc), &clusterv1.ManagedCluster{}))
		testkit.Must(t, agent.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(name)))
		testkit.Must(t, agentWatch(t, config, name))
		testkit.Eventually(t, func() error {
			return agent.Patch(ctx, secretWork(t, name, "held"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		})
	})
	testkit.Eventually(t, func() error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(mc), mc); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the cluster is still there (%v)", err)
		}
		return nil
	})
	t.Run("when it is gone", func(t *testing.T) {
		soonRefused(t, "the agent reads itself", func() error { return agent.Get(ctx, client.ObjectKeyFromObject(mc), &clusterv1.ManagedCluster{}) })
		refused(t, "the agent lists works", agent.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(name)))
		refused(t, "the agent reads Secrets", agent.List(ctx, &corev1.SecretList{}))
		refused(t, "the agent creates its cluster", agent.Create(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	})
}

// Agents are killed and started at the worst moments: they finish with what they
// have to clean up, whatever rights they have lost meanwhile.
func TestAgentsRestartWhileTheirClusterLeaves(t *testing.T) {
	ctx := context.Background()
	const name = "restarting"
	m, admin := hub.join(t, name), hub.admin(t)
	object := func(name string, finalizers ...string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: finalizers},
		}
	}
	applied := func(o client.Object) {
		t.Helper()
		testkit.Eventually(t, func() error { return m.admin.Get(ctx, client.ObjectKeyFromObject(o), o) })
	}
	gone := func(c client.Client, o client.Object) {
		t.Helper()
		testkit.Eventually(t, func() error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T %s is still there (%v)\n%s", o, o.GetName(), err, m.agent.Log())
			}
			return nil
		})
	}
	t.Run("when it was denied", func(t *testing.T) {
		one := newWork(t, name, "one", object("one"))
		testkit.Must(t, admin.Create(ctx, one))
		applied(object("one"))
		hub.deny(t, name)
		testkit.Must(t, m.agent.Kill())
		testkit.Must(t, admin.Delete(ctx, one))
		testkit.Must(t, m.agent.Restart())
		gone(admin, one)
		gone(m.admin, object("one"))
	})
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	testkit.Must(t, admin.Patch(ctx, mc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hubAcceptsClient":true}}`))))
	t.Run("when it is being deleted", func(t *testing.T) {
		two := newWork(t, name, "two", object("two", held))
		testkit.Must(t, admin.Create(ctx, two))
		applied(object("two"))
		testkit.Must(t, admin.Delete(ctx, mc))
		testkit.Eventually(t, func() error {
			if err := admin.Get(ctx, client.ObjectKeyFromObject(two), two); err != nil {
				return err
			}
			if two.DeletionTimestamp.IsZero() {
				return errors.New("the work is not being deleted")
			}
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName(name)}}
			if err := admin.Get(ctx, client.ObjectKeyFromObject(binding), binding); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the agent has its rights (%v)", err)
			}
			return nil
		})
		testkit.Must(t, m.agent.Kill())
		testkit.Must(t, m.agent.Restart())
		testkit.Must(t, m.admin.Patch(ctx, object("two"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		gone(admin, mc)
		gone(m.admin, object("two"))
	})
}

package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	musterapi "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

// importing is a hub that imports, and a cluster that has no agent yet.
type importing struct {
	*testing.T
	hub, managed side
	url          string
	kubeconfig   []byte
}

func newImporting(t *testing.T) importing {
	t.Helper()
	dir := t.TempDir()
	hub, err := testhub.StartHub(muster, filepath.Join(dir, "hub"), "--feature-gates", "ClusterImport=true", "--cluster-import-allow-loopback")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Kill() })
	managed, err := testhub.StartCluster(muster, filepath.Join(dir, "paris"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = managed.Kill() })
	content, err := os.ReadFile(managed.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return importing{
		t, admin(t, fleet.Member{Kubeconfig: hub.Kubeconfig}), admin(t, fleet.Member{Kubeconfig: managed.Kubeconfig}), hub.URL, content,
	}
}

// handIn puts a kubeconfig where imports find it.
func (w importing) handIn(name string, content []byte) {
	w.Helper()
	create(w.T, w.hub, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: musterapi.ImportNamespace, Name: name}, Data: map[string][]byte{"kubeconfig": content}})
}

func (w importing) get(name string) *v1alpha1.ClusterImport {
	w.Helper()
	imp := &v1alpha1.ClusterImport{}
	if err := w.hub.Get(w.Context(), client.ObjectKey{Name: name}, imp); err != nil {
		w.Fatal(err)
	}
	return imp
}

// eventually waits for a condition of an import to have a reason.
func (w importing) eventually(name, condition, reason string) {
	w.Helper()
	testkit.EventuallyThat(w.T, condition+" of "+name+" is "+reason, func() error {
		imp := w.get(name)
		if is := meta.FindStatusCondition(imp.Status.Conditions, condition); is == nil || is.Reason != reason {
			return fmt.Errorf("the conditions are %+v\nthe agent's pods: %s", imp.Status.Conditions, agentPods(w.Context(), w.managed))
		}
		return nil
	})
}

// settled waits until an import is carried out and its kubeconfig forgotten.
func (w importing) settled(name string) {
	w.Helper()
	testkit.EventuallyThat(w.T, "the import is carried out", func() error {
		imp := w.get(name)
		is := meta.FindStatusCondition(imp.Status.Conditions, musterapi.ConditionKubeconfigUsable)
		installed := meta.FindStatusCondition(imp.Status.Conditions, musterapi.ConditionAgentInstalled)
		if is == nil || is.Reason != musterapi.ReasonForgotten || installed.Reason != musterapi.ReasonInstalled || is.ObservedGeneration != imp.Generation {
			return fmt.Errorf("the conditions are %+v\nthe agent's pods: %s", imp.Status.Conditions, agentPods(w.Context(), w.managed))
		}
		return nil
	})
	err := w.hub.Get(w.Context(), client.ObjectKey{Namespace: musterapi.ImportNamespace, Name: name}, &corev1.Secret{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		w.Errorf("the hub keeps the kubeconfig: %v", err)
	}
	tokens := &corev1.SecretList{}
	if err := w.hub.List(w.Context(), tokens, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		w.Fatal(err)
	}
	for _, s := range tokens.Items {
		if s.Type == corev1.SecretTypeBootstrapToken {
			w.Errorf("the token %s is not revoked", s.Name)
		}
	}
}

// change changes the specification of an import.
func (w importing) change(name string, how func(*v1alpha1.ClusterImportSpec)) {
	w.Helper()
	imp := w.get(name)
	before := imp.DeepCopy()
	how(&imp.Spec)
	if err := w.hub.Patch(w.Context(), imp, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
}

// registrations are the name of the cluster's agent, the certificate requests that it
// made with a bootstrap token, and its kubeconfig. Those that an agent makes with its own
// certificate are renewals, which it makes by itself, also at the hub's new address:
// what must not happen is a registration, and that takes a token.
func (w importing) registrations(name string) (agent string, requests []string, at string) {
	w.Helper()
	secret := &corev1.Secret{}
	if err := w.managed.Get(w.Context(), client.ObjectKey{Namespace: cluster.AgentNamespace, Name: cluster.HubKubeconfigSecret}, secret); err != nil {
		w.Fatal(err)
	}
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := w.hub.List(w.Context(), list, client.MatchingLabels{cluster.NameLabel: name}); err != nil {
		w.Fatal(err)
	}
	for _, r := range list.Items {
		if _, ok := cluster.TokenOfUser(r.Spec.Username); !ok {
			continue
		}
		requests = append(requests, fmt.Sprintf("%s by %s at %s", r.Name, r.Spec.Username, r.CreationTimestamp.Format(time.TimeOnly)))
	}
	return string(secret.Data[cluster.AgentNameKey]), requests, string(secret.Data[cluster.KubeconfigKey])
}

func (w importing) deployment() *appsv1.Deployment {
	w.Helper()
	d := &appsv1.Deployment{}
	if err := w.managed.Get(w.Context(), client.ObjectKey{Namespace: cluster.AgentNamespace, Name: klusterlet.Name}, d); err != nil {
		w.Fatal(err)
	}
	return d
}

// renewed waits for the agent's next sign of life.
func (w importing) renewed(name string) {
	w.Helper()
	var first *metav1.Condition
	testkit.EventuallyThat(w.T, "the agent is available", func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := w.hub.Get(w.Context(), client.ObjectKey{Name: name}, mc); err != nil {
			return err
		}
		first = meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable)
		if first == nil || first.Status != metav1.ConditionTrue {
			return fmt.Errorf("it is %+v", first)
		}
		return nil
	})
}

// The hub installs the agent, forgets the kubeconfig, and later changes roll the agent
// without a registration, one cluster that hangs beside it.
func TestClusterImport(t *testing.T) {
	w := newImporting(t)
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	managedAt := strings.TrimPrefix(w.managed.server, "https://")
	for i := range 3 { // connections are made, and nobody answers
		name := fmt.Sprintf("hung%d", i)
		w.handIn(name, bytes.ReplaceAll(w.kubeconfig, []byte(managedAt), []byte(hung.Addr().String())))
		create(t, w.hub, &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterImportSpec{KubeconfigSecret: name}})
	}
	create(t, w.hub, &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: "paris"}, Spec: v1alpha1.ClusterImportSpec{
		KubeconfigSecret: "paris", Accept: true, Labels: map[string]string{"region": "eu"},
		Agent: v1alpha1.AgentOptions{Annotations: map[string]string{"note": "one"}},
	}})
	w.eventually("paris", musterapi.ConditionKubeconfigUsable, musterapi.ReasonSecretMissing)
	w.handIn("paris", w.kubeconfig)
	w.settled("paris")
	w.renewed("paris")
	agent, requests, _ := w.registrations("paris")
	mc := &clusterv1.ManagedCluster{}
	if err := w.hub.Get(t.Context(), client.ObjectKey{Name: "paris"}, mc); err != nil || mc.Labels["region"] != "eu" {
		t.Errorf("the ManagedCluster is %+v, %v", mc, err)
	}
	for what, change := range map[string]func(*v1alpha1.ClusterImportSpec){
		"options":  func(s *v1alpha1.ClusterImportSpec) { s.Agent.Annotations = map[string]string{"note": "two"} },
		"redeploy": func(s *v1alpha1.ClusterImportSpec) { s.Redeploy++ },
		"hub URL": func(s *v1alpha1.ClusterImportSpec) {
			s.Endpoint.Server = strings.Replace(w.url, "127.0.0.1", "localhost", 1)
		},
	} {
		before := w.deployment()
		w.change("paris", change)
		w.eventually("paris", musterapi.ConditionAgentInstalled, musterapi.ReasonKubeconfigNeeded)
		w.handIn("paris", w.kubeconfig)
		w.settled("paris")
		w.renewed("paris")
		if after := w.deployment(); after.UID != before.UID || after.Generation == before.Generation {
			t.Errorf("%s: the Deployment %s is not rolled: %s of generation %d, was %d", what, before.UID, after.UID, after.Generation, before.Generation)
		}
		testkit.EventuallyThat(t, "the agent's kubeconfig leads to the hub's new address", func() error {
			_, _, at := w.registrations("paris")
			if what == "hub URL" && !strings.Contains(at, "https://localhost") {
				return fmt.Errorf("it leads to %s", at)
			}
			return nil
		})
		now, asked, _ := w.registrations("paris")
		if now != agent || !slices.Equal(asked, requests) {
			t.Errorf("%s: the cluster has registered again: %q as %s, were %q as %s", what, asked, now, requests, agent)
		}
	}
	if imp := w.get("paris"); imp.Status.Redeployed != 1 {
		t.Errorf("redeployed is %d", imp.Status.Redeployed)
	}
	w.eventually("hung0", musterapi.ConditionKubeconfigUsable, musterapi.ReasonUnreachable)

	// Its deletion leaves the agent.
	if err := w.hub.Delete(t.Context(), w.get("paris")); err != nil {
		t.Fatal(err)
	}
	w.renewed("paris")
	w.deployment()
}

// While the kubeconfig is there, the hub restores what others change, and leaves an
// agent of Terraform's alone.
func TestClusterImportRepairs(t *testing.T) {
	w := newImporting(t)
	w.handIn("paris", w.kubeconfig)
	keep := false
	create(t, w.hub, &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: "paris"}, Spec: v1alpha1.ClusterImportSpec{KubeconfigSecret: "paris", Accept: true, ForgetAfterJoin: &keep}})
	w.eventually("paris", musterapi.ConditionJoined, musterapi.ReasonClusterJoined)
	d := w.deployment()
	before := d.DeepCopy()
	d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args, "-v=9")
	// An apply would leave alone what others add.
	d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://evil:3128"}}
	d.Spec.Template.Spec.HostPID = true
	if err := w.managed.Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.change("paris", func(s *v1alpha1.ClusterImportSpec) { s.Labels = map[string]string{"look": "now"} })
	w.eventually("paris", musterapi.ConditionDrifted, musterapi.ReasonRepaired)
	pod := w.deployment().Spec.Template.Spec
	c := pod.Containers[0]
	if strings.Contains(strings.Join(c.Args, " "), "-v=9") || c.Env != nil || pod.HostPID {
		t.Errorf("the pods are %+v", pod)
	}
	drifted := meta.FindStatusCondition(w.get("paris").Status.Conditions, musterapi.ConditionDrifted)
	for _, what := range []string{"containers[klusterlet-agent].env[HTTPS_PROXY]", "spec.template.spec.hostPID"} {
		if !strings.Contains(drifted.Message, what) {
			t.Errorf("%s is not named: %s", what, drifted.Message)
		}
	}
	d = w.deployment()
	before = d.DeepCopy()
	d.Annotations[musterapi.InstalledByAnnotation] = musterapi.InstalledByTerraform
	if err := w.managed.Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.change("paris", func(s *v1alpha1.ClusterImportSpec) { s.Agent.Annotations = map[string]string{"fought": "over"} })
	w.eventually("paris", musterapi.ConditionAgentInstalled, musterapi.ReasonInstalledByOther)
	if w.deployment().Spec.Template.Annotations["fought"] != "" {
		t.Error("an agent of Terraform's was changed")
	}
}

package access

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	keys "github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// access is what a user, mostly jo, has asked for.
type access struct {
	t       testing.TB
	user    string
	member  *member
	keys    keys.Keys
	request *v1alpha1.AccessRequest
}

// ask asks for access to a cluster as jo, and askIn by another tenant's cloud.
func ask(t testing.TB, m *member, mode v1alpha1.AccessMode) *access {
	t.Helper()
	return askIn(t, tenant, m, mode)
}

func askIn(t testing.TB, tenant string, m *member, mode v1alpha1.AccessMode) *access {
	t.Helper()
	return askAs(t, jo, tenant, m, mode)
}

// askAs is askIn as another user.
func askAs(t testing.TB, user, tenant string, m *member, mode v1alpha1.AccessMode) *access {
	t.Helper()
	k, err := keys.NewKeys()
	testkit.Must(t, err)
	a := &access{t: t, user: user, member: m, keys: k, request: &v1alpha1.AccessRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, GenerateName: "jo-"},
		Spec:       v1alpha1.AccessRequestSpec{LogicalCloud: "prod", ManagedCluster: m.name, Mode: mode, ExpirationSeconds: 3600},
	}}
	if mode != v1alpha1.AccessToken {
		a.request.Spec.Request, err = useraccess.NewRequest(k.Certificate, hubID(t), user)
		testkit.Must(t, err)
	}
	if mode != v1alpha1.AccessCertificate {
		a.request.Spec.SealTo = k.Token.PublicKey().Bytes()
	}
	testkit.Must(t, hub.as(t, user).Create(t.Context(), a.request))
	return a
}

func hubID(t testing.TB) string {
	t.Helper()
	info := &corev1.ConfigMap{}
	testkit.Must(t, hub.admin(t).Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.Name}, info))
	return info.Data[hubinfo.HubIDKey]
}

func (a *access) read() {
	a.t.Helper()
	testkit.Must(a.t, hub.as(a.t, a.user).Get(a.t.Context(), client.ObjectKeyFromObject(a.request), a.request))
}

// waits waits for the reason of the condition Issued while there is no access.
func (a *access) waits(reason string) {
	a.t.Helper()
	a.eventually(func() error {
		c := meta.FindStatusCondition(a.request.Status.Conditions, muster.ConditionIssued)
		if c == nil || c.Status == metav1.ConditionTrue || c.Reason != reason {
			return fmt.Errorf("want %s to wait with the reason %s", a.member.name, reason)
		}
		return nil
	})
}

// eventually reads the request until check is content.
func (a *access) eventually(check func() error) {
	a.t.Helper()
	testkit.Eventually(a.t, func() error {
		a.read()
		if err := check(); err != nil {
			log := "no agent"
			if a.member.agent != nil {
				log = a.member.agent.Log()
			}
			return fmt.Errorf("%w: %+v\n%s", err, a.request.Status.Conditions, log)
		}
		return nil
	})
}

// has waits until jo has access, and returns jo's configuration for the cluster.
func (a *access) has() *rest.Config {
	a.t.Helper()
	a.eventually(func() error {
		if !meta.IsStatusConditionTrue(a.request.Status.Conditions, muster.ConditionIssued) {
			return fmt.Errorf("no access to %s", a.member.name)
		}
		return nil
	})
	config := rest.AnonymousClientConfig(a.member.config)
	if len(a.request.Status.SealedToken) > 0 {
		token, err := useraccess.Open(a.keys.Token, a.request.Status.SealedToken, string(a.request.UID))
		testkit.Must(a.t, err)
		config.BearerToken = string(token)
		return config
	}
	key, err := a.keys.KeyPEM()
	testkit.Must(a.t, err)
	config.CertData, config.KeyData = a.request.Status.Certificate, key
	return config
}

// canI asks the cluster, as `kubectl auth can-i` does.
func canI(t testing.TB, config *rest.Config, verb, resource, namespace string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: namespace},
	}}
	err := testfleet.Client(t, config).Create(t.Context(), review)
	return review.Status.Allowed, err
}

// may waits until jo may do in a cluster what a cloud grants, and nothing else, in the
// namespace of the cloud prod or that of another one: the cluster's authorizer learns
// of bindings by a watch.
func may(t testing.TB, config *rest.Config, in ...string) {
	t.Helper()
	cloudNamespace := append(in, cloudNamespace)[0]
	for _, q := range []struct {
		resource, namespace string
		want                bool
	}{{"configmaps", cloudNamespace, true}, {"secrets", cloudNamespace, false}, {"configmaps", "kube-system", false}, {"nodes", "", false}} {
		testkit.Eventually(t, func() error {
			got, err := canI(t, config, "create", q.resource, q.namespace)
			if err != nil || got != q.want {
				err = fmt.Errorf("create %s in %q: %v, %w, want %v", q.resource, q.namespace, got, err, q.want)
			}
			return err
		})
	}
}

// mayNoMore waits until jo may do nothing in the cluster, or is not known to it.
func mayNoMore(t testing.TB, config *rest.Config, in ...string) {
	t.Helper()
	cloudNamespace := append(in, cloudNamespace)[0]
	testkit.Eventually(t, func() error {
		if allowed, err := canI(t, config, "create", "configmaps", cloudNamespace); err == nil && allowed {
			return fmt.Errorf("jo may still create config maps")
		}
		return nil
	})
}

// breakSigner keeps the cluster's signer from writing certificates. It refuses each
// request in its place.
func breakSigner(t testing.TB, m *member) {
	t.Helper()
	deny, rules := admissionregistrationv1.Deny, admissionregistrationv1.NamedRuleWithOperations{}
	rules.Rule = admissionregistrationv1.Rule{
		APIGroups: []string{"certificates.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"certificatesigningrequests/status"},
	}
	rules.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	c, err := client.New(m.config, client.Options{})
	testkit.Must(t, err)
	testkit.Must(t, c.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "no-certificates"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rules}},
			Validations:      []admissionregistrationv1.Validation{{Expression: "!has(object.status.certificate)"}},
		},
	}))
	testkit.Must(t, c.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "no-certificates"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "no-certificates", ValidationActions: []admissionregistrationv1.ValidationAction{deny},
		},
	}))
	go func() {
		for ; t.Context().Err() == nil; time.Sleep(20 * time.Millisecond) {
			list := &certificatesv1.CertificateSigningRequestList{}
			_ = m.admin.List(t.Context(), list)
			for i := range list.Items {
				if r := &list.Items[i]; len(r.Status.Conditions) == 1 && r.Status.Conditions[0].Type == certificatesv1.CertificateApproved {
					r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
						Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "NoSigner", Message: "this cluster signs nothing",
					})
					_ = m.admin.SubResource("status").Update(t.Context(), r)
				}
			}
		}
	}()
}

// A user gets into three clusters: one at once, one whose agent comes late, and one
// whose signer refuses. A fourth has an agent that does no user access. Keys are the
// user's own, or those that the hub makes. Then the rights go, in each way there is.
func TestUserGetsIntoClustersAndOutAgain(t *testing.T) {
	early, late, unsigned := prepare(t, "early", chosen, made, odd), prepare(t, "late", chosen, made), prepare(t, "unsigned", chosen, made)
	upstream := prepare(t, "upstream", chosen)
	breakSigner(t, unsigned)
	early.start("--user-access")
	unsigned.start("--user-access")
	upstream.start()
	clouds(t, tenant)
	toEarly, toLate := ask(t, early, v1alpha1.AccessCertificate), ask(t, late, v1alpha1.AccessCertificate)
	toUnsigned, toUpstream := ask(t, unsigned, v1alpha1.AccessAuto), ask(t, upstream, v1alpha1.AccessCertificate)

	asEarly := toEarly.has()
	may(t, asEarly)
	asUnsigned := toUnsigned.has()
	if len(toUnsigned.request.Status.Certificate) > 0 {
		t.Errorf("a certificate where none is signed: %+v", toUnsigned.request.Status)
	}
	may(t, asUnsigned)
	toUpstream.waits(muster.ReasonAgentUnable)
	toLate.waits(muster.ReasonAgentOffline)
	waitsFor(t, 3, "late:"+muster.ReasonAgentOffline)
	late.start("--user-access")
	asLate := toLate.has()
	may(t, asLate)
	// Another key of the same user is not affected by what happens to the first.
	again := ask(t, early, v1alpha1.AccessCertificate)
	asAgain := again.has()
	may(t, asAgain)
	madeIn := handedOut(t, early, late, unsigned)
	for name, config := range madeIn.configs {
		may(t, config, madeNamespace)
		if token := config.BearerToken != ""; token != (name == unsigned.name) {
			t.Errorf("the kubeconfig has a token for %s: %v", name, token)
		}
	}

	t.Run("kubectl in all clusters", func(t *testing.T) {
		ask := newKubectl(t)
		plugin := ownKubeconfig(t, early, late, unsigned)
		for _, m := range []*member{early, late, unsigned} {
			for kubeconfig, namespace := range map[string]string{madeIn.file: madeNamespace, plugin: cloudNamespace} {
				ask.may(kubeconfig, m, "create configmaps", "yes")
				ask.may(kubeconfig, m, "create secrets", "no")
				ask.may(kubeconfig, m, "create configmaps --namespace kube-system", "no")
				ask.run(kubeconfig, m, "create configmap from-"+namespace)
				testkit.Must(t, m.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "from-" + namespace}, &corev1.ConfigMap{}))
			}
		}
	})
	t.Run("users with odd names", func(t *testing.T) { oddNames(t, early) })
	t.Run("no key is in the store", func(t *testing.T) { noneInTheStore(t, madeIn) })
	t.Run("the request is deleted", func(t *testing.T) {
		testkit.Must(t, hub.as(t, jo).Delete(t.Context(), toEarly.request))
		mayNoMore(t, asEarly)
		may(t, asAgain)
	})
	t.Run("the cluster leaves", func(t *testing.T) {
		mc := &clusterv1.ManagedCluster{}
		testkit.Must(t, hub.admin(t).Get(t.Context(), client.ObjectKey{Name: late.name}, mc))
		before := mc.DeepCopy()
		mc.Labels[chosen], mc.Labels[made] = "no", "no"
		testkit.Must(t, hub.admin(t).Patch(t.Context(), mc, client.MergeFrom(before)))
		mayNoMore(t, asLate)
		mayNoMore(t, madeIn.configs[late.name], madeNamespace)
		handedOut(t, early, unsigned)
		ns := &corev1.Namespace{}
		testkit.Must(t, late.admin.Get(t.Context(), client.ObjectKey{Name: cloudNamespace}, ns)) // kept by default
		may(t, asAgain)
	})
	t.Run("the cluster's owner takes a token back", func(t *testing.T) {
		testkit.Must(t, unsigned.admin.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "open-cluster-management-agent", Name: muster.PolicyConfigMap}, Data: map[string]string{"enabled": "false"},
		}))
		mayNoMore(t, asUnsigned)
		mayNoMore(t, madeIn.configs[unsigned.name], madeNamespace)
		waitsFor(t, 2, "unsigned:"+muster.ReasonRefusedByPolicy)
	})
	t.Run("the managed cluster is deleted", func(t *testing.T) {
		testkit.Must(t, hub.admin(t).Delete(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: unsigned.name}}))
		handedOut(t, early)
		testkit.Eventually(t, func() error {
			list := &v1alpha1.AccessRequestList{}
			if err := hub.admin(t).List(t.Context(), list, client.InNamespace(tenant), client.MatchingLabels{muster.HubMadeLabel: "true"}); err != nil {
				return err
			}
			for _, r := range list.Items {
				if r.Spec.ManagedCluster != early.name {
					return fmt.Errorf("the hub's request %s for %s is left", r.Name, r.Spec.ManagedCluster)
				}
			}
			return nil
		})
	})
	t.Run("the grant goes", func(t *testing.T) {
		before := &v1alpha1.LogicalCloud{}
		testkit.Must(t, hub.admin(t).Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: "made"}, before))
		after := before.DeepCopy()
		after.Spec.Grants = nil
		testkit.Must(t, hub.admin(t).Patch(t.Context(), after, client.MergeFrom(before)))
		mayNoMore(t, madeIn.configs[early.name], madeNamespace)
		if code, _, body := kubeconfigOf(t); code != http.StatusForbidden {
			t.Errorf("the hub answers %d %s", code, body)
		}
		newKubectl(t).may(madeIn.file, early, "create configmaps", "no")
	})
	t.Run("the cluster's owner takes a certificate back", func(t *testing.T) {
		testkit.Must(t, early.admin.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "open-cluster-management-agent", Name: muster.PolicyConfigMap}, Data: map[string]string{"modes": "Token"},
		}))
		mayNoMore(t, asAgain)
		may(t, ask(t, early, v1alpha1.AccessToken).has())
	})
	t.Run("the cloud is deleted", func(t *testing.T) {
		last := ask(t, early, v1alpha1.AccessToken)
		asLast := last.has()
		testkit.Must(t, hub.admin(t).Delete(t.Context(), &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "prod"}}))
		mayNoMore(t, asLast)
	})
	t.Run("user access is switched off", func(t *testing.T) {
		testkit.Must(t, early.agent.Stop())
		early.start()
		testkit.Eventually(t, func() error {
			mc := &clusterv1.ManagedCluster{}
			if err := hub.admin(t).Get(t.Context(), client.ObjectKey{Name: early.name}, mc); err != nil {
				return err
			}
			if modes, ok := mc.Annotations[muster.UserAccessAnnotation]; ok {
				return fmt.Errorf("the agent still reports %q", modes)
			}
			return nil
		})
	})
}

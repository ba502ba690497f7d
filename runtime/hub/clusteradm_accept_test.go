package hub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// clusteradmAccept does what "clusteradm accept" does for one cluster, and
// returns how many requests it has approved.
func clusteradmAccept(t testing.TB, name string, skipApproveCheck bool, requesters ...string) (approved int, err error) {
	t.Helper()
	ctx := context.Background()
	k, c := clientsetFor(t, admin), clientFor(t, admin)
	hubCheck(t, k)
	mc := newCluster(name)
	if err := c.Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
		return 0, err
	}
	_, withoutRequests := mc.Annotations["agent.open-cluster-management.io/managed-cluster-arn"]
	if !withoutRequests {
		if approved, err = clusteradmApprove(ctx, k, name, skipApproveCheck, requesters); err != nil {
			return 0, err
		}
	}
	if !mc.Spec.AcceptsClient() {
		if err := c.Patch(ctx, mc, client.RawPatch(types.MergePatchType, []byte(acceptPatch))); err != nil {
			return approved, err
		}
	}
	if approved == 0 && !withoutRequests {
		return 0, errors.New("no csr is approved yet for cluster " + name)
	}
	return approved, nil
}

func clusteradmApprove(ctx context.Context, k kubernetes.Interface, name string, skipApproveCheck bool, requesters []string) (int, error) {
	requests := k.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(ctx, metav1.ListOptions{LabelSelector: "open-cluster-management.io/cluster-name = " + name})
	if err != nil {
		return 0, err
	}
	names := map[string]bool{}
	var passed []*certificatesv1.CertificateSigningRequest
	for i := range list.Items {
		r := &list.Items[i]
		if !skipApproveCheck && !clusteradmTrusts(r) {
			continue
		}
		subject, err := certificates.ParseCSR(r.Spec.Request)
		if err != nil {
			return 0, err
		}
		if len(requesters) > 0 && !slices.Contains(requesters, subject.Subject.CommonName) {
			continue
		}
		names[subject.Subject.CommonName] = true
		passed = append(passed, r)
	}
	if len(names) > 1 && !skipApproveCheck && len(requesters) == 0 {
		return 0, nil
	}
	approved := 0
	for _, r := range passed {
		if len(r.Status.Conditions) > 0 {
			continue
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
			Reason: "clusteradm Approve", Message: "This CSR was approved by clusteradm certificate approve.",
		}}
		if _, err := requests.UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{}); err != nil {
			return approved, err
		}
		approved++
	}
	return approved, nil
}

// clusteradmTrusts is its check of who has made a request. A hub whose bootstrap
// identities have other names would have to be used with --skip-approve-check.
func clusteradmTrusts(r *certificatesv1.CertificateSigningRequest) bool {
	const (
		account     = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
		grpcAccount = "system:serviceaccount:open-cluster-management-hub:grpc-server-sa"
	)
	trusted := slices.ContainsFunc([]string{"system:bootstrap:", account, grpcAccount}, func(prefix string) bool {
		return strings.HasPrefix(r.Spec.Username, prefix)
	})
	return trusted && slices.ContainsFunc(r.Spec.Groups, func(g string) bool {
		return slices.Contains([]string{"system:bootstrappers:managedcluster", "system:serviceaccounts:open-cluster-management", "system:serviceaccounts:open-cluster-management-hub"}, g)
	})
}

// announced is what a joining agent has done when an administrator looks: its
// cluster, and a request for a certificate.
func announced(t testing.TB, config *rest.Config, name string) (request string, key []byte) {
	t.Helper()
	bootstrap := clientFor(t, config)
	if err := bootstrap.Create(context.Background(), newCluster(name)); !apierrors.IsAlreadyExists(err) {
		testkit.Must(t, err)
	}
	r, key := certificateRequest(t, name, "a")
	testkit.Must(t, bootstrap.Create(context.Background(), r))
	return r.Name, key
}

// conditionsOf are who has decided a request, and how.
func conditionsOf(t testing.TB, request string) []certificatesv1.CertificateSigningRequestCondition {
	t.Helper()
	r, err := clientsetFor(t, admin).CertificatesV1().CertificateSigningRequests().Get(context.Background(), request, metav1.GetOptions{})
	testkit.Must(t, err)
	return r.Status.Conditions
}

func TestClusteradmAccept(t *testing.T) {
	for kind, token := range map[string]string{
		"a service account's token": serviceAccountToken(t),
		"a bootstrap token":         bootstrapToken(t, cluster.BootstrapGroup),
	} {
		t.Run(kind, func(t *testing.T) {
			name := clusterName(t, "adm-accept")
			request, key := announced(t, withToken(token), name)
			if n, err := clusteradmAccept(t, name, false); n != 1 || err != nil {
				t.Fatalf("%d requests approved, %v", n, err)
			}
			agent := clientFor(t, withCertificate(certificate(t, request), key))
			testkit.Eventually(t, func() error { return agent.Get(t.Context(), types.NamespacedName{Name: name}, newCluster(name)) })
			if c := conditionsOf(t, request); len(c) != 1 || c[0].Reason != "clusteradm Approve" {
				t.Errorf("the request has the conditions %+v", c)
			}
			// Once more, it finds all decided.
			if n, err := clusteradmAccept(t, name, false); n != 0 || err == nil {
				t.Errorf("%d requests approved again, %v", n, err)
			}
		})
	}
}

// Without --wait it ends when the agent has not come yet; with it, it asks
// again.
func TestClusteradmAcceptWaits(t *testing.T) {
	name := clusterName(t, "adm-wait")
	if _, err := clusteradmAccept(t, name, false); !apierrors.IsNotFound(err) {
		t.Errorf("got %v for a cluster that nobody has announced", err)
	}
	// The cluster is there before its request: it is accepted at once, and the
	// request approved when it is there.
	testkit.Must(t, clientFor(t, admin).Create(t.Context(), newCluster(name)))
	if _, err := clusteradmAccept(t, name, false); err == nil || err.Error() != "no csr is approved yet for cluster "+name {
		t.Errorf("got %v for a cluster without a request", err)
	}
	waitForCluster(t, name, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionTrue, cluster.ReasonHubAccepted))
	request, _ := announced(t, withToken(bootstrapToken(t, cluster.BootstrapGroup)), name)
	if n, err := clusteradmAccept(t, name, false); n != 1 || err != nil {
		t.Errorf("%d requests approved, %v", n, err)
	}
	certificate(t, request)
}

func TestClusteradmAcceptChoosesAmongRequesters(t *testing.T) {
	for kind, x := range map[string]struct {
		skip       bool
		requesters []string // agents
		approved   int
	}{
		"neither of two":           {false, nil, 0},
		"both without the check":   {true, nil, 2},
		"the one that it is given": {false, []string{"b"}, 1},
	} {
		t.Run(kind, func(t *testing.T) {
			name := clusterName(t, "adm-two")
			config := withToken(bootstrapToken(t, cluster.BootstrapGroup))
			announced(t, config, name)
			second, _ := certificateRequest(t, name, "b")
			testkit.Must(t, clientFor(t, config).Create(t.Context(), second))
			var commonNames []string
			for _, agent := range x.requesters {
				commonNames = append(commonNames, fmt.Sprintf("system:open-cluster-management:%s:%s", name, agent))
			}
			n, err := clusteradmAccept(t, name, x.skip, commonNames...)
			if n != x.approved || (err == nil) != (n > 0) {
				t.Errorf("%d requests approved (%v), want %d", n, err, x.approved)
			}
			if x.approved > 0 {
				certificate(t, second.Name)
			}
			// The cluster is accepted whatever became of the requests.
			waitForCluster(t, name, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionTrue, cluster.ReasonHubAccepted))
		})
	}
}

// The requests of bound tokens are not clusteradm's to approve: the hub does it
// when the cluster is accepted.
func TestClusteradmAcceptLeavesBoundTokensToTheHub(t *testing.T) {
	name := clusterName(t, "adm-bound")
	request, _ := announced(t, withToken(bootstrapToken(t, cluster.BoundBootstrapGroup(name))), name)
	if n, err := clusteradmAccept(t, name, false); n != 0 || err == nil {
		t.Errorf("%d requests approved, %v", n, err)
	}
	certificate(t, request)
	if c := conditionsOf(t, request); len(c) != 1 || c[0].Reason != "AutoApprovedByHubCSRApprovingController" {
		t.Errorf("the request has the conditions %+v", c)
	}
}

func TestClusteradmAcceptNeedsNoRequestFromAnEKSCluster(t *testing.T) {
	name := clusterName(t, "adm-eks")
	mc := newCluster(name)
	mc.Annotations = map[string]string{"agent.open-cluster-management.io/managed-cluster-arn": "arn:aws:eks:us-west-2:123456789012:cluster/x"}
	testkit.Must(t, clientFor(t, withToken(bootstrapToken(t, cluster.BootstrapGroup))).Create(t.Context(), mc))
	if _, err := clusteradmAccept(t, name, false); err != nil {
		t.Error(err)
	}
	waitForCluster(t, name, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionTrue, cluster.ReasonHubAccepted))
}

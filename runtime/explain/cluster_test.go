package explain

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

var now = time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)

func before(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// condition reads a condition from Type=Status/Reason/Message; it is five minutes old.
func condition(text string) metav1.Condition {
	kind, rest, _ := strings.Cut(text, "=")
	parts := append(strings.SplitN(rest, "/", 3), "", "")
	return metav1.Condition{
		Type: kind, Status: metav1.ConditionStatus(parts[0]), Reason: parts[1], Message: parts[2],
		LastTransitionTime: before(5 * time.Minute),
	}
}

func conditions(texts ...string) []metav1.Condition {
	var out []metav1.Condition
	for _, text := range texts {
		out = append(out, condition(text))
	}
	return out
}

// Conditions of a cluster on its way.
const (
	isAccepted  = cluster.ConditionHubAccepted + "=True"
	isJoined    = cluster.ConditionJoined + "=True"
	isAvailable = cluster.ConditionAvailable + "=True"
	isSilent    = cluster.ConditionAvailable + "=Unknown/" + cluster.ReasonLeaseUpdateStopped + "/" +
		cluster.MessageLeaseUpdateStopped
)

func paris(accepted bool, of ...string) *clusterv1.ManagedCluster {
	m := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "paris"}}
	m.Spec.HubAcceptsClient = &accepted
	m.Status.Conditions = conditions(of...)
	return m
}

func changed[T any](object T, change func(T)) T {
	change(object)
	return object
}

func heartbeat(age time.Duration) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: now.Add(-age)}}}
}

// request is a certificate request in these states.
func request(name string, states ...certificatesv1.RequestConditionType) csr {
	r := csr{ObjectMeta: metav1.ObjectMeta{Name: name,
		CreationTimestamp: before(time.Hour)}}
	r.Spec.Username = "system:bootstrap:abcdef"
	for _, s := range states {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: s,
			Reason: "Why", Message: "because"})
	}
	return r
}

// shown is an explanation as text, as a person reads it.
func shown(e Explanation) string {
	lines := []string{e.State}
	for _, c := range e.Causes {
		lines = append(lines, string(c.Level)+": "+c.Summary)
		lines = append(lines, c.Evidence...)
		for _, s := range c.Next {
			lines = append(lines, strings.TrimSuffix(s.Do+": "+s.Command, ": "))
		}
	}
	return strings.Join(lines, "\n")
}

// verify checks what an explanation says.
func verify(t *testing.T, e Explanation, level Level, wants ...string) {
	t.Helper()
	said := shown(e)
	if e.Level != level {
		t.Errorf("it is %s, want %s:\n%s", e.Level, level, said)
	}
	for _, want := range wants {
		if unwanted, ok := strings.CutPrefix(want, "!"); ok == strings.Contains(said, strings.TrimPrefix(want, "!")) {
			t.Errorf("%q: it says\n%s", unwanted, said)
		}
	}
}

func TestCluster(t *testing.T) {
	member := []string{isAccepted, isJoined, isAvailable}
	silent := []string{isAccepted, isJoined, isSilent}
	approve := "kubectl certificate approve csr-1"
	for name, x := range map[string]struct {
		facts ClusterFacts
		level Level
		wants []string
	}{
		"all is well": {
			ClusterFacts{Cluster: paris(true, member...), Lease: heartbeat(time.Second), RequestsRead: true}, OK,
			[]string{"paris is available."},
		},
		"never accepted": {
			ClusterFacts{Cluster: paris(false), Requests: []csr{request("csr-1")}}, Waiting,
			[]string{"waits to be accepted", `"hubAcceptsClient":true`, "muster_cluster_acceptance", "csr-1", approve},
		},
		"denied": {
			ClusterFacts{Cluster: paris(false, cluster.ConditionHubAccepted+"=False/"+cluster.ReasonHubDenied,
				isJoined)}, Warning,
			[]string{"paris is denied", `"hubAcceptsClient":true`, "the next apply denies it again", "!waits"},
		},
		"reserved name": {
			ClusterFacts{Cluster: paris(true, cluster.ConditionHubAccepted+"=False/"+
				cluster.ReasonNameReserved+"/no cluster can be called this")},
			Problem, []string{"name is reserved", "no cluster can be called this", "kubectl delete managedcluster " +
				"paris"},
		},
		"rights fail": {
			ClusterFacts{Cluster: paris(true, cluster.ConditionHubAccepted+"=False/Error/the namespace "+
				"exists")}, Problem,
			[]string{"could not give it", "the namespace exists"},
		},
		"accepted this moment": {ClusterFacts{Cluster: paris(true)}, Waiting, []string{"not given it its rights " +
			"yet", "/readyz"}},
		"no certificate request": {
			ClusterFacts{Cluster: paris(true, isAccepted), RequestsRead: true}, Waiting,
			[]string{"has not asked for a certificate", "muster join-manifest --cluster paris", "logs " +
				"deployment/klusterlet-agent"},
		},
		"requests that may not be read": {ClusterFacts{Cluster: paris(true, isAccepted)}, Waiting, []string{"!has " +
			"not asked"}},
		"a request that waits": {
			ClusterFacts{
				Cluster: paris(true, isAccepted), RequestsRead: true,
				Requests: []csr{request("csr-1")},
				RequestEvents: map[string][]Event{"csr-1": {{Reason: "CertificateRequestNotApproved",
					Message: "the token is bound to rome"}}},
			}, Waiting,
			[]string{"nobody has approved it: 1 certificate request", "the token is bound to " +
				"rome", "2026-11-23T19:00:00Z (60m ago)", approve},
		},
		"a request that was denied": {
			ClusterFacts{Cluster: paris(true, isAccepted), RequestsRead: true,
				Requests: []csr{request("csr-1",
					certificatesv1.CertificateDenied)}}, Waiting,
			[]string{"request was denied, or failed", "csr-1 is denied (Why): because", "kubectl delete csr csr-1"},
		},
		"a request that nobody signs": {
			ClusterFacts{Cluster: paris(true, isAccepted), RequestsRead: true,
				Requests: []csr{request("csr-1",
					certificatesv1.CertificateApproved)}}, Waiting,
			[]string{"has not signed it"},
		},
		"joined this moment": {ClusterFacts{Cluster: paris(true, isAccepted, isJoined)}, Waiting, []string{"not " +
			"reported yet"}},
		"silent": {
			ClusterFacts{Cluster: paris(true, silent...), Lease: heartbeat(10 * time.Minute)}, Problem,
			[]string{
				"unreachable since 2026-11-23T19:55:00Z (5m ago)", "last renewed at 2026-11-23T19:50:00Z (10m ago)",
				"every 60s, and the hub waits 5m", "get pods", "muster rejoin paris", "muster detach paris --force",
			},
		},
		"heard again": {
			ClusterFacts{Cluster: paris(true, silent...), Lease: heartbeat(time.Second)}, Problem,
			[]string{"renews its lease again", "!detach"},
		},
		"lost its identity": {
			ClusterFacts{
				Cluster: paris(true, silent...), Lease: heartbeat(time.Hour),
				Requests:      []csr{request("csr-1")},
				RequestEvents: map[string][]Event{"csr-1": {{Message: "has joined before"}}},
			}, Problem, []string{"asks for another one", "has joined before", approve, "muster rejoin paris"},
		},
		"its API server is not ok": {
			ClusterFacts{Cluster: paris(true, isAccepted, isJoined, cluster.ConditionAvailable+"=False/x/status "+
				"code: 500")}, Problem,
			[]string{"unavailable since", "status code: 500", "/readyz"},
		},
		"late": {
			ClusterFacts{Cluster: paris(true, member...), Lease: heartbeat(3 * time.Minute)}, Warning,
			[]string{"paris is available.", "agent is late", "unreachable when there is none until " +
				"2026-11-23T20:02:00Z"},
		},
		"a wrong clock": {
			ClusterFacts{Cluster: paris(true, append(member, cluster.ConditionClockSynced+"=False")...)}, Warning,
			[]string{"clocks", "NTP"},
		},
		"behind the hub's endpoint": {
			ClusterFacts{
				Cluster: paris(true, append(member, muster.ConditionHubEndpointCurrent+
					"=False/Unreachable/generation 1: no route")...),
				Hub: &hubinfo.Endpoints{Generation: 2, URLs: []string{"https://new"}},
			}, Warning, []string{"newest endpoint", "no route", "generation 2 of its endpoints: " +
				"https://new", "firewall"},
		},
		"at the hub's endpoint": {
			ClusterFacts{
				Cluster: paris(true, append(member, muster.ConditionHubEndpointCurrent+"=True/Current/generation "+
					"2: here")...),
				Hub: &hubinfo.Endpoints{Generation: 2},
			}, OK, []string{"!endpoint"},
		},
		"a renewal that failed": {
			ClusterFacts{Cluster: paris(true, append(member, cluster.ConditionCertificateRotated+"=False/x/no "+
				"answer")...)}, Warning,
			[]string{"could not renew", "no answer", "muster rotate-certificate paris"},
		},
		"a certificate in its first half": {
			ClusterFacts{Cluster: paris(true, append(member, cluster.ConditionCertificateRotated+
				"=True/x/client certificate rotated starting from 2026-11-20 20:00:00 +0000 UTC to 2026-12-24 "+
				"20:00:00 +0000 UTC")...)}, OK,
			[]string{"is of 2026-11-20T20:00:00Z (3d ago)", "ends at 2026-12-24T20:00:00Z, in 31d"},
		},
		"a certificate near its end": {
			ClusterFacts{Cluster: paris(true, append(member, cluster.ConditionCertificateRotated+
				"=True/x/client certificate rotated starting from 2026-11-14 20:00:00 +0000 UTC to 2026-11-24 "+
				"20:00:00 +0000 UTC")...)}, Warning,
			[]string{"ends at 2026-11-24T20:00:00Z, in 24h", "muster rotate-certificate paris"},
		},
		"a certificate that ended": {
			ClusterFacts{Cluster: paris(true, append(silent, cluster.ConditionCertificateRotated+
				"=True/x/client certificate rotated starting from 2026-11-14 20:00:00 +0000 UTC to 2026-11-23 "+
				"19:00:00 +0000 UTC")...)}, Problem,
			[]string{"ended at 2026-11-23T19:00:00Z", "muster rejoin paris"},
		},
		"somebody else asks": {
			ClusterFacts{Cluster: paris(true, member...), Requests: []csr{request("csr-1"), request("csr-2")}},
			Warning, []string{"Nobody has decided about 2 certificate requests", "kubectl certificate " +
				"deny csr-1", "find out which"},
		},
		"a set's namespace fails": {
			ClusterFacts{Cluster: changed(paris(true, member...), func(m *clusterv1.ManagedCluster) {
				m.Status.ManagedNamespaces = []clusterv1.ClusterSetManagedNamespaceConfig{{
					ClusterSet: "prod", Name: "team",
					Conditions: conditions(cluster.ConditionNamespaceAvailable + "=False/x/forbidden"),
				}}
			})}, Warning, []string{"namespace team that the set prod", "forbidden"},
		},
		"taints": {
			ClusterFacts{Cluster: changed(paris(true, silent...), func(m *clusterv1.ManagedCluster) {
				added := before(time.Hour)
				m.Spec.Taints = []clusterv1.Taint{
					{Key: cluster.UnreachableTaint, Effect: clusterv1.TaintEffectNoSelect},
					{Key: "mine", Value: "v", Effect: clusterv1.TaintEffectNoSelectIfNew, TimeAdded: &added},
				}
			})}, Problem,
			[]string{"It goes when the cluster is available again", "do not newly select the cluster, because of " +
				"the taint mine=v:NoSelectIfNew", "set at 2026-11-23T19:00:00Z"},
		},
		"being deleted without its agent": {
			ClusterFacts{
				Cluster: changed(paris(true, silent...), func(m *clusterv1.ManagedCluster) {
					at := before(time.Hour)
					m.DeletionTimestamp, m.Finalizers = &at, []string{cluster.ResourceCleanupFinalizer,
						"example.com/mine"}
				}),
				Left: []Left{{Kind: "ManifestWork", Name: "web", Deleting: true, Finalizers: []string{"f"}}},
			}, Problem,
			[]string{
				"asked for at 2026-11-23T19:00:00Z", "waits for 1 object in the cluster's namespace",
				"ManifestWork web is being deleted, held by f", "muster " +
					"explain work paris/web",
				"muster detach paris --force", "does not know the example.com/mine", "!rejoin",
			},
		},
		"being deleted": {
			ClusterFacts{Cluster: changed(paris(true, member...), func(m *clusterv1.ManagedCluster) {
				at := before(time.Second)
				m.DeletionTimestamp, m.Finalizers = &at, []string{cluster.APIResourceCleanupFinalizer}
			})}, Waiting, []string{"withdraws the cluster's rights", "!--force"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			x.facts.Now = now
			verify(t, Cluster(x.facts), x.level, x.wants...)
		})
	}
}

func TestClusterKnowsTheCertificateOfARequest(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-9 * time.Hour),
		NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testkit.Must(t, err)
	r := request("csr-1", certificatesv1.CertificateApproved)
	r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	f := ClusterFacts{Cluster: paris(true, isAccepted, isJoined, isAvailable),
		Requests: []csr{r}, Now: now}
	verify(t, Cluster(f), Warning, "ends at 2026-11-23T21:00:00Z, in 60m")
}

package hub_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// However many clusters there are, an agent's list of its certificate requests reads these.
func TestCertificateRequestsAreFoundByTheirCluster(t *testing.T) {
	c := clientsetFor(t, admin)
	_, err := c.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{
		LabelSelector: cluster.NameLabel + "=" + clusterName(t, "requests"),
	})
	testkit.Must(t, err)
	text, err := c.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	testkit.Must(t, err)
	used := `index="l:` + cluster.NameLabel + `",resource="certificatesigningrequests"`
	if !strings.Contains(string(text), used) {
		t.Errorf("no list has used the index %s", used)
	}
}

// A hub counts its fleet, and docs/metrics.md lists its own metrics and no others.
func TestMetrics(t *testing.T) {
	name := clusterName(t, "metrics")
	testkit.Must(t, clientFor(t, admin).Create(t.Context(), &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}))
	var text string
	testkit.EventuallyThat(t, "the cluster is counted", func() error {
		body, err := clientsetFor(t, admin).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		text = string(body)
		if err == nil && regexp.MustCompile(`(?m)^muster_fleet_clusters\{state="pending"\} 0$`).MatchString(text) {
			return errors.New("no cluster is pending")
		}
		return err
	})
	list, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	testkit.Must(t, err)
	ofHub, _, ok := strings.Cut(string(list), "## Of the agent")
	if !ok {
		t.Fatal("docs/metrics.md does not tell hub and agent apart")
	}
	var listed, served []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(muster_[a-z_]+)`").FindAllStringSubmatch(ofHub, -1) {
		listed = append(listed, m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (muster_[a-z_]+) `).FindAllStringSubmatch(text, -1) {
		served = append(served, m[1])
	}
	// Before a write was refused, the store was looked at, and an agent has asked for
	// something, there is no series of them.
	served = append(served, "muster_budget_refusals_total", "muster_store_bytes", "muster_requests_waiting")
	slices.Sort(listed)
	slices.Sort(served)
	served = slices.Compact(served)
	if !slices.Equal(listed, served) {
		t.Errorf("docs/metrics.md lists %v,\nand the hub has %v", listed, served)
	}
}

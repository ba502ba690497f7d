package access

import (
	"fmt"
	"sync"
	"testing"

	"github.com/prometheus/procfs"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// BenchmarkAThousandTunnels reports what a thousand open tunnels, a request through each, take
// of a hub's process: ten users with a hundred each, to ten clusters with agents of their own.
func BenchmarkAThousandTunnels(b *testing.B) {
	const users, each, perRequest = 10, 100, 8
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		namespace := fmt.Sprintf("team-thousand-%d", round)
		clouds(b, namespace)
		cloud := &v1alpha1.LogicalCloud{}
		testkit.Must(b, hub.admin(b).Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: "prod"}, cloud))
		var names []string
		for i := range users {
			names = append(names, fmt.Sprintf("user-%d@example.com", i))
		}
		before := cloud.DeepCopy()
		cloud.Spec.Grants[0].Users, cloud.Spec.Access.MaxRequestsPerUser = names, 20
		testkit.Must(b, hub.admin(b).Patch(b.Context(), cloud, client.MergeFrom(before)))
		accesses := make([][]*access, users)
		for i, user := range names {
			testkit.Must(b, hub.admin(b).Create(b.Context(), &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "asks-"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "muster:access-user"},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			}))
			bindTunnel(b, namespace, user)
			m := prepare(b, fmt.Sprintf("thousand-%d-%d", round, i), chosen)
			m.startWith("--user-access", "--tunnels")
			for range (each + perRequest - 1) / perRequest {
				accesses[i] = append(accesses[i], askAs(b, user, namespace, m, v1alpha1.AccessCertificate))
			}
		}
		for _, of := range accesses {
			for _, a := range of {
				a.has()
			}
		}
		held := hubMemory(b)
		b.StartTimer()
		var all sync.WaitGroup
		for _, of := range accesses {
			all.Go(func() {
				for i := range each {
					a := of[i/perRequest]
					c, id, err := connect(b, a, hub.config(a.user))
					if err != nil {
						b.Errorf("tunnel %d of %s: %v", i, a.user, err)
						return
					}
					b.Cleanup(c.Close)
					through := kubernetes.NewForConfigOrDie(opened{c, id}.config(a.has()))
					_, err = through.CoreV1().ConfigMaps(cloudNamespace).List(b.Context(), metav1.ListOptions{})
					if err != nil {
						b.Errorf("through the tunnel %d of %s: %v", i, a.user, err)
					}
				}
			})
		}
		all.Wait()
		b.StopTimer()
		now := hubMemory(b)
		b.ReportMetric(held, "MB-before")
		b.ReportMetric(now, "MB-with-1000")
		b.ReportMetric((now-held)*1000/(users*each), "KB/tunnel")
		b.StartTimer()
	}
}

// hubMemory is the anonymous memory of the hub's process in megabytes.
func hubMemory(t testing.TB) float64 {
	t.Helper()
	of, err := procfs.NewProc(hub.process.PID())
	testkit.Must(t, err)
	status, err := of.NewStatus()
	testkit.Must(t, err)
	return float64(status.RssAnon) / 1e6
}

package placement

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// benchClusters says how many clusters the hub of the benchmark has.
const benchClusters = "MUSTER_BENCH_CLUSTERS"

// fleetOf makes a hub with clusters as agents report them.
func fleetOf(b *testing.B, clusters int) *testhub.Process {
	b.Helper()
	builder := testhub.Builder{}
	program, err := builder.Path(b.TempDir())
	testkit.Must(b, err)
	process, err := testhub.StartHub(program, b.TempDir())
	testkit.Must(b, err)
	b.Cleanup(func() { _ = process.Stop() })
	config, err := clientcmd.BuildConfigFromFlags("", process.Kubeconfig)
	testkit.Must(b, err)
	client, err := rest.HTTPClientFor(config)
	testkit.Must(b, err)
	send := func(method, path, contentType string, body map[string]any) {
		text, _ := json.Marshal(body)
		request, err := http.NewRequestWithContext(context.Background(), method, config.Host+path, bytes.NewReader(text))
		testkit.Must(b, err)
		request.Header.Set("Content-Type", contentType)
		answer, err := client.Do(request)
		testkit.Must(b, err)
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode >= http.StatusBadRequest {
			b.Errorf("%s %s: %s", method, path, answer.Status)
		}
	}
	const group, patch = "cluster.open-cluster-management.io", "application/merge-patch+json"
	send(http.MethodPost, "/apis/"+group+"/v1beta2/namespaces/default/managedclustersetbindings", "application/json", map[string]any{
		"apiVersion": group + "/v1beta2", "kind": "ManagedClusterSetBinding", "metadata": map[string]any{"name": "default", "namespace": "default"}, "spec": map[string]any{"clusterSet": "default"}})
	claims, conditions := []any{}, []any{}
	for i := range 10 {
		claims = append(claims, map[string]any{"name": fmt.Sprintf("claim-%d.example.com", i), "value": fmt.Sprintf("value-%d", i)})
	}
	for _, kind := range []string{"ManagedClusterJoined", "ManagedClusterConditionAvailable", "ManagedClusterConditionClockSynced"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "reason": "Reason", "message": "A message that says what it is about", "lastTransitionTime": "2026-01-01T00:00:00Z"})
	}
	var workers sync.WaitGroup
	numbers := make(chan int)
	for range 16 {
		workers.Go(func() {
			for i := range numbers {
				name := fmt.Sprintf("cluster-%05d", i)
				send(http.MethodPost, "/apis/"+group+"/v1/managedclusters", "application/json", map[string]any{
					"apiVersion": group + "/v1", "kind": "ManagedCluster",
					"metadata": map[string]any{"name": name, "labels": map[string]any{"env": "prod", "region": fmt.Sprintf("r%d", i%7)}}})
				send(http.MethodPatch, "/apis/"+group+"/v1/managedclusters/"+name+"/status", patch, map[string]any{"status": map[string]any{
					"version": map[string]any{"kubernetes": "v1.33.1"}, "clusterClaims": claims, "conditions": conditions,
					"capacity": map[string]any{"cpu": "64", "memory": fmt.Sprintf("%dMi", 4096+i)}, "allocatable": map[string]any{"cpu": "60", "memory": fmt.Sprintf("%dMi", 4000+i)}}})
			}
		})
	}
	for i := range clusters {
		numbers <- i
	}
	close(numbers)
	workers.Wait()
	return process
}

// cpuOf is what a process has worked so far, in seconds.
func cpuOf(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	testkit.Must(b, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')'):]))
	user, _ := strconv.ParseFloat(fields[12], 64)
	system, _ := strconv.ParseFloat(fields[13], 64)
	return (user + system) / 100
}

// BenchmarkPreviewOnAHub previews a placement among the clusters of a real hub, as
// the first of a plan does, with what the hub serves for it and, as at an upstream
// hub, with lists.
func BenchmarkPreviewOnAHub(b *testing.B) {
	clusters := 10_000
	if text := os.Getenv(benchClusters); text != "" {
		var err error
		clusters, err = strconv.Atoi(text)
		testkit.Must(b, err)
	}
	process := fleetOf(b, clusters)
	for name, read := range map[string]func(context.Context, *kube.Client, hub.Features) (*hub.Fleet, error){
		"snapshot": hub.ReadRecentFleet, "lists": hub.ReadFleet,
	} {
		b.Run(name, func(b *testing.B) {
			before, self := cpuOf(b, process.PID()), usage(b)
			for b.Loop() {
				var diags diag.Diagnostics
				h := hub.New(kube.Connection{KubeconfigPath: process.Kubeconfig}, nil, "test")
				snapshot, err := read(b.Context(), h.Client(&diags), h.Has)
				testkit.Must(b, err)
				if p := snapshot.Preview(scheduled(plannedPlacementOf("default", "p")), true); len(p.Explanations) != clusters {
					b.Fatalf("it explains %d clusters, want %d", len(p.Explanations), clusters)
				}
			}
			b.ReportMetric((cpuOf(b, process.PID())-before)/float64(b.N), "hub-CPU-s/op")
			b.ReportMetric((usage(b)-self)/float64(b.N), "client-CPU-s/op")
		})
	}
}

// usage is what this process has worked so far, in seconds.
func usage(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	testkit.Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

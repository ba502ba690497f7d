package agent_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

func TestJoining(t *testing.T) {
	f := newCluster(t, "join")
	f.options.ClusterAnnotations = map[string]string{"agent.open-cluster-management.io/zone": "z", "example.com/other": "x"}
	f.options.ExternalServerURLs = []string{"https://join.example.com:6443"}
	f.options.ClientCertExpirationSeconds = 7200
	f.join()

	t.Run("the agent creates the ManagedCluster", func(t *testing.T) {
		mc := f.get()
		if got := mc.Annotations["agent.open-cluster-management.io/zone"]; got != "z" {
			t.Errorf("the agent's annotation is %q", got)
		}
		if _, ok := mc.Annotations["example.com/other"]; ok {
			t.Error("an annotation is there that agents may not set")
		}
		if got := mc.Spec.ManagedClusterClientConfigs; len(got) != 1 || got[0].URL != "https://join.example.com:6443" {
			t.Errorf("addresses %+v", got)
		}
	})

	t.Run("the request is what the hub's approver and people expect", func(t *testing.T) {
		requests := f.requests()
		if len(requests) != 1 {
			t.Fatalf("%d requests", len(requests))
		}
		r := requests[0]
		block, _ := pem.Decode(r.Spec.Request)
		parsed, err := x509.ParseCertificateRequest(block.Bytes)
		must(t, err)
		agentName := f.identity()[cluster.AgentNameKey]
		if want := "system:open-cluster-management:" + f.name + ":" + agentName; parsed.Subject.CommonName != want {
			t.Errorf("common name %q, want %q", parsed.Subject.CommonName, want)
		}
		if got, want := slices.Sorted(slices.Values(parsed.Subject.Organization)), slices.Sorted(slices.Values([]string{"system:open-cluster-management:" + f.name, "system:open-cluster-management:managed-clusters"})); !slices.Equal(got, want) {
			t.Errorf("organizations %q, want %q", got, want)
		}
		want := []certificatesv1.KeyUsage{"digital signature", "key encipherment", "client auth"}
		if !strings.HasPrefix(r.Name, f.name+"-") || r.Spec.SignerName != "kubernetes.io/kube-apiserver-client" || !slices.Equal(r.Spec.Usages, want) || *r.Spec.ExpirationSeconds != 7200 {
			t.Errorf("request %s of %+v", r.Name, r.Spec)
		}
	})

	t.Run("the identity is stored as other OCM agents read it", func(t *testing.T) {
		data := f.identity()
		delete(data, muster.PlaceKey) // which others don't read
		if got, want := slices.Sorted(maps.Keys(data)), []string{"agent-name", "cluster-name", "kubeconfig", "tls.crt", "tls.key"}; !slices.Equal(got, want) {
			t.Fatalf("keys %q, want %q", got, want)
		}
		config, err := clientcmd.Load([]byte(data["kubeconfig"]))
		must(t, err)
		user, context := config.AuthInfos["default-auth"], config.Contexts["default-context"]
		if config.CurrentContext != "default-context" || context == nil || context.Cluster != "hub" || context.Namespace != "configuration" {
			t.Errorf("context %q: %+v", config.CurrentContext, context)
		}
		if user == nil || user.ClientCertificate != "tls.crt" || user.ClientKey != "tls.key" || user.Token != "" {
			t.Errorf("user %+v", user)
		}
		if config.Clusters["hub"].Server != fleet.url {
			t.Errorf("server %q", config.Clusters["hub"].Server)
		}
	})

	t.Run("the status says joined, available and its version", func(t *testing.T) {
		mc := f.get()
		joined := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionJoined)
		available := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable)
		if joined.Reason != "ManagedClusterJoined" || joined.Message != "Managed cluster joined" || joined.Status != metav1.ConditionTrue {
			t.Errorf("joined: %+v", joined)
		}
		if available.Reason != "ManagedClusterAvailable" || available.Message != "Managed cluster is available" {
			t.Errorf("available: %+v", available)
		}
		if !strings.HasPrefix(mc.Status.Version.Kubernetes, "v1.") {
			t.Errorf("version %q", mc.Status.Version.Kubernetes)
		}
	})

	t.Run("the lease is renewed", func(t *testing.T) {
		mc := f.get()
		before := mc.DeepCopy()
		mc.Spec.LeaseDurationSeconds = 1
		must(t, fleet.client.Patch(t.Context(), mc, client.MergeFrom(before)))
		var first *metav1.MicroTime
		testenv.Eventually(t, func() error {
			lease := &coordinationv1.Lease{}
			if err := fleet.client.Get(t.Context(), client.ObjectKey{Namespace: f.name, Name: cluster.LeaseName}, lease); err != nil {
				return err
			}
			if first == nil { // of the hub, which makes the lease
				first = lease.Spec.RenewTime
			}
			if lease.Spec.RenewTime.Equal(first) {
				return fmt.Errorf("nobody but the hub has written the lease: %+v", lease.Spec)
			}
			return nil
		})
	})

	t.Run("an event informs the hub's people", func(t *testing.T) {
		list := &eventsv1.EventList{}
		testenv.Eventually(t, func() error {
			if err := fleet.client.List(t.Context(), list, client.InNamespace(f.name)); err != nil {
				return err
			}
			for _, e := range list.Items {
				if e.Reason == "Available" && e.ReportingController == "klusterlet-agent" &&
					e.Note == "The "+f.name+" is successfully imported, and it is managed by the hub cluster. Its apieserver is available" {
					return nil
				}
			}
			return fmt.Errorf("not among %d events", len(list.Items))
		})
	})
}

func TestFirstReportHasEverything(t *testing.T) {
	f := newCluster(t, "whole")
	claim := &clusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "whole.example.com"}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "x"}}
	must(t, env.Client().Create(t.Context(), claim))
	t.Cleanup(func() { _ = env.Client().Delete(context.Background(), claim) })
	hub, err := client.NewWithWatch(fleet.config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	must(t, err)
	w, err := hub.Watch(t.Context(), &clusterv1.ManagedClusterList{}, client.MatchingFields{"metadata.name": f.name})
	must(t, err)
	defer w.Stop()
	f.join()
	for e := range w.ResultChan() {
		mc, ok := e.Object.(*clusterv1.ManagedCluster)
		if !ok || meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionJoined) == nil {
			continue
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionAvailable) || mc.Status.Version.Kubernetes == "" || len(mc.Status.ClusterClaims) != 1 {
			t.Errorf("the write that says joined lacks the rest: %+v", mc.Status)
		}
		return
	}
	t.Error("the watch ended before the cluster had joined")
}

func TestAcceptanceAfterApprovalIsNoticedAtOnce(t *testing.T) {
	f := newCluster(t, "later")
	f.start()
	f.approve()
	testenv.Eventually(t, func() error {
		if f.identity()[cluster.TLSCertKey] == "" {
			return fmt.Errorf("no certificate yet")
		}
		return nil
	})
	f.accept(true)
	start := time.Now()
	f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("noticed after %s", d)
	}
}

func TestExistingManagedClusterIsTakenOver(t *testing.T) {
	f := newCluster(t, "existing")
	f.options.ExternalServerURLs = []string{"https://existing.example.com"}
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name, Labels: map[string]string{"env": "prod"}}}
	must(t, fleet.client.Create(t.Context(), mc))
	f.join()
	// Only the agent's own identity may change the object.
	f.eventually(func(mc *clusterv1.ManagedCluster) error {
		if got := mc.Spec.ManagedClusterClientConfigs; len(got) != 1 || got[0].URL != "https://existing.example.com" {
			return fmt.Errorf("addresses %+v", got)
		}
		return nil
	})
	if got := f.get(); got.UID != mc.UID || got.Labels["env"] != "prod" {
		t.Errorf("the ManagedCluster is another one: %+v", got.ObjectMeta)
	}
}

func TestRequestsOfOthersKeepNobodyFromJoining(t *testing.T) {
	f := newCluster(t, "flooded")
	for range 2 * cluster.MaxPendingRequests {
		must(t, fleet.client.Create(t.Context(), someRequest(t, f.name)))
	}
	f.join()
}

func TestDeniedRequestIsReplacedOnceItIsRemoved(t *testing.T) {
	f := newCluster(t, "turned-down")
	f.start()
	denied := f.decide(certificatesv1.CertificateDenied)
	must(t, fleet.client.Delete(t.Context(), &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: denied}}))
	f.approve()
	f.accept(true)
	f.awaitCondition(cluster.ConditionAvailable, metav1.ConditionTrue)
}

func TestNoFurtherRequestWhenTheHubHasTenOfTheAgent(t *testing.T) {
	f := newCluster(t, "flood")
	f.options.AgentID = "other" // as in the requests
	for range cluster.MaxPendingRequests {
		must(t, fleet.client.Create(t.Context(), someRequest(t, f.name)))
	}
	f.start()
	testenv.Eventually(t, func() error {
		return fleet.client.Get(context.Background(), client.ObjectKey{Name: f.name}, &clusterv1.ManagedCluster{})
	})
	// Room for one: it is only now that the agent may make its own.
	requests := f.requests()
	if len(requests) != cluster.MaxPendingRequests {
		t.Fatalf("%d requests, want none beyond %d", len(requests), cluster.MaxPendingRequests)
	}
	must(t, fleet.client.Delete(t.Context(), &requests[0]))
	testenv.Eventually(t, func() error {
		for _, r := range f.requests() {
			if strings.HasPrefix(r.Name, f.name+"-") {
				return nil
			}
		}
		return fmt.Errorf("the agent has made no request")
	})
}

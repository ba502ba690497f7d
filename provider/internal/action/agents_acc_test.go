package action_test

import (
	"strings"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func manifest(text string) workv1.Manifest {
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(text)}}
}

func configMap() *corev1.ConfigMap { return &corev1.ConfigMap{} }

func requestsOf(o *acctest.Outsider, name string) int {
	o.T.Helper()
	requests := &certificatesv1.CertificateSigningRequestList{}
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.List(ctx, requests, registration.RequestsOf(name)); err != nil {
		o.T.Fatal(err)
	}
	return len(requests.Items)
}

func TestAccRotateACertificate(t *testing.T) {
	o := someone(t, onHub)
	before := requestsOf(o, "cluster1")
	var both sync.WaitGroup // two who ask at the same time ask once
	for range 2 {
		both.Go(func() {
			invoke(t, "muster_rotate_certificate", map[string]any{"managed_cluster": "cluster1", "timeout": "30s"}, nil).said(t, "stays valid until it expires")
		})
	}
	both.Wait()
	if made := requestsOf(o, "cluster1") - before; made < 1 || made > 2 {
		t.Errorf("%d certificate requests were made", made)
	}
	invoke(t, "muster_rotate_certificate", map[string]any{"managed_cluster": "cluster"}, nil).failed(t, `There is no managed cluster "cluster"`, "Did you mean cluster1")
}

func TestAccRotateWithoutAnAnswer(t *testing.T) {
	o := someone(t, onHub)
	newCluster(o, "mute", true, nil)
	object := &clusterv1.ManagedCluster{}
	o.Wait(object, "", "mute", func() bool { return meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted) })
	rotate := map[string]any{"managed_cluster": "mute", "timeout": "1s"}
	invoke(t, "muster_rotate_certificate", rotate, nil).failed(t, "can't renew its certificate", "has not joined")
	joined(o, "mute")
	invoke(t, "muster_rotate_certificate", rotate, nil).failed(t, "has not renewed its certificate within 1s", "agents of Open Cluster Management renew by the time alone")
	if o.Get(object, "", "mute"); object.Annotations[cluster.RenewCertificateAnnotation] != "" {
		t.Error("the request was not taken back")
	}
	rotate["timeout"] = "1m"
	invoke(t, "muster_rotate_certificate", rotate, func(said string) {
		if strings.Contains(said, "is asked to renew") {
			accept(o, "mute", "false")
		}
	}).failed(t, "The cluster is not accepted")
}

func TestAccReplayAWork(t *testing.T) {
	o := someone(t, onHub)
	object := &workv1.ManifestWork{}
	applied := func(status metav1.ConditionStatus) func() bool {
		return func() bool {
			return meta.IsStatusConditionPresentAndEqual(object.Status.Conditions, work.ConditionApplied, status)
		}
	}
	o.Apply(plain("replayed", "cluster1", "replayed"))
	o.Wait(object, "cluster1", "replayed", applied(metav1.ConditionTrue))
	replay := func(name string, more ...any) map[string]any {
		config := map[string]any{"managed_cluster": "cluster1", "name": name, "timeout": "30s"}
		for i := 0; i+1 < len(more); i += 2 {
			config[more[i].(string)] = more[i+1]
		}
		return config
	}
	invoke(t, "muster_replay_work", replay("replayed"), nil).said(t, "is asked to apply the work replayed once more", "has applied the work replayed once more: 1 manifest.")
	invoke(t, "muster_replay_work", replay("replay"), nil).failed(t, `There is no work "replay"`, "Did you mean replayed?")
	invoke(t, "muster_replay_work", map[string]any{"managed_cluster": "cluster9", "name": "x"}, nil).failed(t, `There is no managed cluster "cluster9"`)

	broken := plain("broken", "cluster1", "broken")
	broken.Spec.Workload.Manifests = append(broken.Spec.Workload.Manifests, manifest(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"nowhere","name":"x"}}`))
	o.Apply(broken)
	o.Wait(object, "cluster1", "broken", applied(metav1.ConditionFalse))
	invoke(t, "muster_replay_work", replay("broken"), nil).failed(t, `The work "broken" of managed cluster "cluster1" could not be applied`, `namespaces "nowhere" not found`)

	finished := plain("finished", "cluster1", "finished")
	finished.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "default", Name: "finished"},
		ConditionRules:     []workv1.ConditionRule{{Condition: work.ConditionComplete, Type: workv1.ConditionRuleTypeCEL, CELExpressions: []string{"object.data.a == '1'"}}},
	}}
	o.Apply(finished)
	o.Wait(object, "cluster1", "finished", func() bool { return meta.IsStatusConditionTrue(object.Status.Conditions, work.ConditionComplete) })
	invoke(t, "muster_replay_work", replay("finished"), nil).failed(t, `The work "finished" of managed cluster "cluster1" is complete`, "lift_complete")
	invoke(t, "muster_replay_work", replay("finished", "lift_complete", true), nil).said(t, "no longer marked as complete", "once more")

	o.Patch(&workv1.ManifestWork{}, "cluster1", "replayed", `{"metadata":{"finalizers":["`+work.ManifestWorkFinalizer+`","example.com/hold"]}}`)
	ctx, cancel := o.Context()
	defer cancel()
	if _, err := o.Client.Delete(ctx, object, "cluster1", "replayed", ""); err != nil {
		t.Fatal(err)
	}
	invoke(t, "muster_replay_work", replay("replayed"), nil).failed(t, "is being deleted", "example.com/hold")
	o.Patch(&workv1.ManifestWork{}, "cluster1", "replayed", `{"metadata":{"finalizers":null}}`)
}

func token(o *acctest.Outsider, id string, clusters ...string) {
	o.T.Helper()
	var groups []string
	for _, name := range clusters {
		groups = append(groups, cluster.BoundBootstrapGroup(name))
	}
	secret := &corev1.Secret{Type: corev1.SecretTypeBootstrapToken, Data: map[string][]byte{
		"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
		bootstrapapi.BootstrapTokenExtraGroupsKey: []byte(strings.Join(groups, ",")),
	}}
	secret.Namespace, secret.Name = registration.TokenSecret(id)
	secret.Annotations = map[string]string{cluster.TerraformOwnerAnnotation: "x"}
	o.Apply(secret)
}

func TestAccRevokeTokens(t *testing.T) {
	o := someone(t, onHub)
	newCluster(o, "tokens", false, nil)
	token(o, "aaaaaa", "tokens")
	token(o, "bbbbbb", "tokens", "cluster1")
	token(o, "cccccc", "other")
	exists := func(id string) bool {
		namespace, name := registration.TokenSecret(id)
		return o.Exists(&corev1.Secret{}, namespace, name)
	}
	got := invoke(t, "muster_revoke_token", map[string]any{"managed_cluster": "tokens"}, nil)
	got.said(t, "The bootstrap token aaaaaa is revoked.")
	got.warned(t, `The bootstrap token "bbbbbb" is valid for several clusters`)
	got.warned(t, `Terraform manages the bootstrap token "aaaaaa"`)
	if exists("aaaaaa") || !exists("bbbbbb") || !exists("cccccc") {
		t.Errorf("tokens left: aaaaaa %t, bbbbbb %t, cccccc %t", exists("aaaaaa"), exists("bbbbbb"), exists("cccccc"))
	}
	invoke(t, "muster_revoke_token", map[string]any{"token_id": "bbbbbb"}, nil).said(t, "The bootstrap token bbbbbb is revoked.")
	invoke(t, "muster_revoke_token", map[string]any{"token_id": "bbbbbb"}, nil).said(t, "Nothing is to be done")
	invoke(t, "muster_revoke_token", map[string]any{"managed_cluster": "cccccc"}, nil).warned(t, `"cccccc" is the ID of a bootstrap token`)
	invoke(t, "muster_revoke_token", map[string]any{"token_id": "cccccd"}, nil).warned(t, `There is no bootstrap token "cccccd"`, "cccccc")
	invoke(t, "muster_revoke_token", map[string]any{"token_id": "cccccc"}, nil).said(t, "is revoked")
	whole := invoke(t, "muster_revoke_token", map[string]any{"token_id": "cccccc.0123456789abcdef"}, nil)
	if whole.failed(t, "a whole token"); strings.Contains(whole.err.Error(), "0123456789") {
		t.Errorf("the error shows the token: %v", whole.err)
	}
	invoke(t, "muster_revoke_token", nil, nil).failed(t, "token_id", "managed_cluster")
}

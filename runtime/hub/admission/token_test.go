package admission

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// A token whose Secret is gone has no limits that could be kept, so it may do nothing.
func TestRevokedTokensRegisterNothing(t *testing.T) {
	known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	there := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: cluster.TokenSecretPrefix + "aaaaaa"}}
	if err := known.Add(there); err != nil {
		t.Fatal(err)
	}
	tokens := &server{secrets: corelisters.NewSecretLister(known)}
	clusters := schema.GroupVersionResource{Group: cluster.GroupName, Version: "v1", Resource: "managedclusters"}
	requests := schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"}
	for id, isRefused := range map[string]bool{"aaaaaa": false, "bbbbbb": true} {
		who := &user.DefaultInfo{Name: cluster.TokenUser(id), Groups: []string{cluster.BootstrapGroup}}
		attributes := func(o runtime.Object, of schema.GroupVersionResource) admission.Attributes {
			return admission.NewAttributesRecord(o, nil, schema.GroupVersionKind{}, "", "paris", of, "", admission.Create, nil, false, who)
		}
		object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "paris"}}}
		for what, err := range map[string]error{
			"labels":   tokenLabels{server: tokens}.Admit(context.Background(), attributes(object, clusters), nil),
			"requests": tokenRequests{server: tokens}.Admit(context.Background(), attributes(asked(t, "paris", nil), requests), nil),
			"uses":     tokenUses{server: tokens}.Validate(context.Background(), attributes(object, schema.GroupVersionResource{Resource: "other"}), nil),
		} {
			if what == "uses" { // of what is not a cluster's
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				continue
			}
			if (err != nil) != isRefused {
				t.Errorf("%s of the token %s: %v", what, id, err)
			}
			if err != nil && !strings.Contains(err.Error(), "was revoked") {
				t.Error(err)
			}
		}
		if isRefused {
			if err := (tokenUses{server: tokens}).Validate(context.Background(), attributes(object, clusters), nil); err == nil {
				t.Error("a revoked token registers a cluster")
			}
		}
	}
}

package manifest

import (
	"slices"
	"testing"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestManifestsAreAppliedInTheOrderOfTheirKinds(t *testing.T) {
	var manifests []*Manifest
	for _, kind := range []string{
		"Widget", "Deployment", "", "Service", "ConfigMap", "Namespace", "ServiceAccount", "RoleBinding", "Secret",
		"ValidatingWebhookConfiguration", "CustomResourceDefinition",
	} {
		manifests = append(manifests, &Manifest{Meta: workv1.ManifestResourceMeta{Kind: kind}})
	}
	want := []int{5, 10, 7, 6, 4, 8, 3, 1, 9, 0, 2}
	if got := slices.Concat(Batches(manifests)...); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestManifestsOfTheSameRankAreABatch(t *testing.T) {
	var manifests []*Manifest
	for _, kind := range []string{"Deployment", "ConfigMap", "Namespace", "Secret", "StatefulSet"} {
		manifests = append(manifests, &Manifest{Meta: workv1.ManifestResourceMeta{Kind: kind}})
	}
	got := Batches(manifests)
	want := [][]int{{2}, {1, 3}, {0, 4}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

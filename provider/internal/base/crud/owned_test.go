package crud

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

func TestARefusalIsAtTheAttributeThatItNames(t *testing.T) {
	s := schema.Schema{Attributes: map[string]schema.Attribute{
		"labels": schema.StringAttribute{}, "number_of_clusters": schema.StringAttribute{}, "label_selector": schema.StringAttribute{},
	}}
	places := map[string]string{"spec.clusterSelector": "label_selector"}
	for refusal, want := range map[string]string{
		`Placement "p" is invalid: spec.numberOfClusters: must be positive`:   "number_of_clusters",
		`conflict with "kubectl" using v1: .metadata.labels.env`:              "labels",
		`spec.clusterSelector.labelSelector: Invalid value`:                   "label_selector",
		`spec.unheardOf: Invalid value, and spec.numberOfClusters is missing`: "number_of_clusters",
		`the name is reserved`: "",
	} {
		got := ""
		if at := attributeOf(t.Context(), s, places, refusal); at != nil {
			got = at.String()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", refusal, got, want)
		}
	}
}

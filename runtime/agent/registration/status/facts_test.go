package status

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aboutv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/about/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

func property(name, value string, labels ...string) *aboutv1alpha1.ClusterProperty {
	p := &aboutv1alpha1.ClusterProperty{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Spec: aboutv1alpha1.ClusterPropertySpec{Value: value}}
	for _, l := range labels {
		p.Labels[l] = ""
	}
	return p
}

func TestPropertiesWinOverClaims(t *testing.T) {
	for name, x := range map[string]struct {
		claims     []*clusterv1alpha1.ClusterClaim
		properties []*aboutv1alpha1.ClusterProperty
		want       []string
	}{
		"neither":                         {nil, nil, nil},
		"both, with different names":      {[]*clusterv1alpha1.ClusterClaim{claim("b")}, []*aboutv1alpha1.ClusterProperty{property("a", "p")}, []string{"a=p", "b=v-b"}},
		"both, with the same name":        {[]*clusterv1alpha1.ClusterClaim{claim("a")}, []*aboutv1alpha1.ClusterProperty{property("a", "p")}, []string{"a=p"}},
		"a property that stays":           {[]*clusterv1alpha1.ClusterClaim{claim("a")}, []*aboutv1alpha1.ClusterProperty{property("a", "p", cluster.SpokeOnlyLabel)}, []string{"a=v-a"}},
		"a value that the hub won't take": {nil, []*aboutv1alpha1.ClusterProperty{property("a", strings.Repeat("x", 1025)), property("b", ""), property("c", "x")}, []string{"c=x"}},
	} {
		t.Run(name, func(t *testing.T) {
			claims, _ := ClaimRules{MaxCustom: 20}.collect(merged(x.claims, x.properties))
			var got []string
			for _, c := range claims {
				got = append(got, c.Name+"="+c.Value)
			}
			if !slices.Equal(got, x.want) {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

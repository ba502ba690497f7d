package override_test

import (
	"context"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// What a cluster's content costs the hub when something that it depends on has changed.
func BenchmarkForACluster(b *testing.B) {
	for name, spec := range map[string]string{
		"label":      region,
		"expression": `{values: [{name: REGION, expression: 'managedCluster.metadata.labels["region"]'}]}`,
		"patch": `{values: [{name: REGION, label: region}], overrides: [{manifests: {kind: Deployment}, ` +
			`type: Strategic, patch: {spec: {replicas: 3}}}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			o, err := override.Read(specOf(b, spec))
			if err != nil {
				b.Fatal(err)
			}
			bound, err := o.Bind(template(settings, deployment), limit)
			if err != nil {
				b.Fatal(err)
			}
			mc := west()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bound.For(context.Background(), mc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

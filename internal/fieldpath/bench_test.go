package fieldpath_test

import (
	"context"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
)

// What honest users write takes no longer because of what others might write.
func BenchmarkHonestPaths(b *testing.B) {
	object := read(b, document)
	for _, text := range []string{
		`.spec.replicas`, `.spec.containers[?(@.name=="b")].image`, `.spec.containers[*].env[*].name`, `..name`,
	} {
		b.Run(text, func(b *testing.B) {
			path, err := fieldpath.ParseJSONPath(text)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := path.Find(context.Background(), object, fieldpath.NewBudget()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, text := range []string{
		`.spec.missing`, `.spec.containers[] | select(.name == "b") | .missing`, `.webhooks[]?.clientConfig.missing?`,
	} {
		b.Run(text, func(b *testing.B) {
			path, err := fieldpath.ParseJQ(text)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := path.Delete(context.Background(), object, fieldpath.NewBudget()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package expression_test

import (
	"context"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
)

// What honest users write takes no longer because of what others might write.
func BenchmarkHonestExpressions(b *testing.B) {
	env, err := expression.NewEnv(expression.CallLimit, []string{"object"})
	if err != nil {
		b.Fatal(err)
	}
	conditions := []any{}
	for _, kind := range []string{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "message": "as it should be"})
	}
	object := map[string]any{"object": map[string]any{
		"metadata": map[string]any{
			"name": "costly-west-1", "generation": int64(3),
			"labels": map[string]any{"region": "eu-west-1", "tier": "gold"},
		},
		"spec":   map[string]any{"replicas": int64(3), "memory": "1Gi", "version": "v1.36.2"},
		"status": map[string]any{"observedGeneration": int64(3), "readyReplicas": int64(3), "conditions": conditions},
	}}
	for name, text := range map[string]string{
		"fields":      `object.status.observedGeneration == object.metadata.generation && object.status.readyReplicas == object.spec.replicas`,
		"conditions":  `object.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`,
		"labels":      `object.metadata.labels["region"].startsWith("eu-") && object.metadata.labels["tier"] in ["gold", "silver"]`,
		"texts":       `object.metadata.name.split("-")[1] == "west" && object.metadata.name.matches("^[a-z]+-west-[0-9]+$")`,
		"quantities":  `quantity(object.spec.memory).isGreaterThan(quantity("500Mi"))`,
		"versions":    `semver(object.spec.version, true).isGreaterThan(semver("1.30.0"))`,
		"made a list": `object.status.conditions.map(c, c.type).join(",").contains("Ready")`,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if holds, err := env.True(context.Background(), text, object, expression.NewBudget()); err != nil || !holds {
					b.Fatal(holds, err)
				}
			}
		})
	}
}

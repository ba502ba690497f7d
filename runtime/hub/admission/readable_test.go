package admission

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

func wireScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	kinds.AddToScheme(s, kinds.Wire())
	return s
}

func TestUnreadableObjects(t *testing.T) {
	const clusters, works, addOns = "cluster.open-cluster-management.io", "work.open-cluster-management.io", "addon.open-cluster-management.io"
	condition := func(time string) string {
		return `{"status":{"conditions":[{"type":"X","status":"True","reason":"R","message":"","lastTransitionTime":"` + time + `"}]}}`
	}
	for name, x := range map[string]struct {
		group, version, kind, content string
		want                          string // of the refusal; none when empty
	}{
		"a time":                             {clusters, "v1", "ManagedCluster", condition("2026-01-01T00:00:00Z"), ""},
		"a time with parts of a second":      {clusters, "v1", "ManagedCluster", condition("2026-01-01T00:00:00.123456Z"), ""},
		"a time in lower case":               {clusters, "v1", "ManagedCluster", condition("2026-01-01t00:00:00z"), "parsing time"},
		"a time of a zone that is not":       {works, "v1", "ManifestWork", condition("2026-01-01T00:00:00+99:99"), "parsing time"},
		"a time in the newer version":        {addOns, "v1beta1", "ManagedClusterAddOn", condition("2026-01-01t00:00:00z"), "parsing time"},
		"quantities":                         {clusters, "v1", "ManagedCluster", `{"status":{"capacity":{"cpu":"1e3","memory":"128974848","storage":"1.5Gi","x":"12E","y":4}}}`, ""},
		"a quantity with a great exponent":   {clusters, "v1", "ManagedCluster", `{"status":{"capacity":{"cpu":"12345678901234567890e99999999"}}}`, `the quantity of "cpu"`},
		"a quantity with a small exponent":   {clusters, "v1", "ManagedCluster", `{"status":{"allocatable":{"cpu":"12345678901234567890E-99999999"}}}`, `the quantity of "cpu"`},
		"a quantity that is long":            {clusters, "v1", "ManagedCluster", `{"status":{"allocatable":{"cpu":"1` + strings.Repeat("0", 100) + `"}}}`, `the quantity of "cpu"`},
		"a quantity that is none":            {clusters, "v1", "ManagedCluster", `{"status":{"allocatable":{"cpu":"1e"}}}`, "parse quantity"},
		"a quantity in a configuration":      {addOns, "v1beta1", "AddOnDeploymentConfig", `{"spec":{"resourceRequirements":[{"containerID":"a"},{"containerID":"b","resources":{"limits":{"cpu":"12345678901234567890e99999999"}}}]}}`, `the quantity of "cpu"`},
		"a number":                           {clusters, "v1beta1", "Placement", `{"spec":{"decisionStrategy":{"groupStrategy":{"clustersPerDecisionGroup":4}}}}`, ""},
		"a number that is too large":         {clusters, "v1beta1", "Placement", `{"spec":{"decisionStrategy":{"groupStrategy":{"clustersPerDecisionGroup":1099511627776}}}}`, "1099511627776"},
		"a number that is too large to fail": {works, "v1alpha1", "ManifestWorkReplicaSet", `{"spec":{"placementRefs":[{"name":"p","rolloutStrategy":{"all":{"maxFailures":1099511627776}}}]}}`, "1099511627776"},
		"bytes that are none":                {clusters, "v1", "ManagedCluster", `{"spec":{"managedClusterClientConfigs":[{"url":"https://a","caBundle":"_-_"}]}}`, "base64"},
	} {
		t.Run(name, func(t *testing.T) {
			content := map[string]any{}
			if err := json.Unmarshal([]byte(x.content), &content); err != nil {
				t.Fatal(err)
			}
			err := readable{scheme: wireScheme()}.read(schema.GroupVersionKind{Group: x.group, Version: x.version, Kind: x.kind}, content)
			switch {
			case x.want == "" && err != nil:
				t.Error(err)
			case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
				t.Errorf("got %v, want an error with %q", err, x.want)
			}
		})
	}
}

// Every quantity of the wire is looked at before it is parsed.
func TestQuantitiesAreKnown(t *testing.T) {
	have := map[schema.GroupKind][]string{}
	for kind, paths := range quantities {
		for _, path := range paths {
			have[kind] = append(have[kind], strings.Join(path, "."))
		}
		slices.Sort(have[kind])
	}
	want := map[schema.GroupKind][]string{}
	for kind, goType := range wireScheme().AllKnownTypes() {
		if strings.HasSuffix(kind.Kind, "List") || !strings.Contains(goType.PkgPath(), "runtime/api/") {
			continue
		}
		paths := quantityPaths(goType, nil, map[reflect.Type]bool{})
		if len(paths) > 0 {
			slices.Sort(paths)
			want[kind.GroupKind()] = slices.Compact(paths)
		}
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("looked at are %v, the kinds have %v", have, want)
	}
}

func quantityPaths(t reflect.Type, path []string, above map[reflect.Type]bool) []string {
	if above[t] {
		return nil
	}
	above[t] = true
	defer delete(above, t)
	switch t.Kind() {
	case reflect.Pointer:
		return quantityPaths(t.Elem(), path, above)
	case reflect.Slice:
		return quantityPaths(t.Elem(), append(slices.Clone(path), "*"), above)
	case reflect.Map:
		if t.Elem() == reflect.TypeFor[resource.Quantity]() {
			return []string{strings.Join(path, ".")}
		}
		return quantityPaths(t.Elem(), append(slices.Clone(path), "{}"), above)
	case reflect.Struct:
		if t == reflect.TypeFor[resource.Quantity]() {
			return []string{strings.Join(path, ".")}
		}
		var all []string
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			below := path
			if name != "" {
				below = append(slices.Clone(path), name)
			}
			if f.IsExported() {
				all = append(all, quantityPaths(f.Type, below, above)...)
			}
		}
		return all
	}
	return nil
}

package placement_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// bigHub answers lists with a fleet of the given size, as a hub's clusters are in
// practice: some 4 KB each, most of that the records of field managers.
func bigHub(tb testing.TB, clusters int) string {
	tb.Helper()
	lists := map[string][]byte{}
	list := func(resource string, count int, item func(i int) string) {
		var b strings.Builder
		b.WriteString(`{"metadata":{"resourceVersion":"1"},"items":[`)
		for i := range count {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(item(i))
		}
		b.WriteString(`]}`)
		lists[resource] = []byte(b.String())
	}
	managed := strings.Repeat(`{"manager":"agent","operation":"Update","apiVersion":"cluster.open-cluster-management.io/v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:allocatable":{".":{},"f:cpu":{},"f:memory":{},"f:pods":{}},"f:capacity":{".":{},"f:cpu":{},"f:memory":{},"f:pods":{}},"f:clusterClaims":{},"f:version":{".":{},"f:kubernetes":{}}}},"subresource":"status"},`, 4)
	condition := `{"type":"%s","status":"True","reason":"Reason","message":"A message that says what it is about","lastTransitionTime":"2026-01-01T00:00:00Z"}`
	var conditions []string
	for _, kind := range []string{"HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable", "ManagedClusterConditionClockSynced"} {
		conditions = append(conditions, fmt.Sprintf(condition, kind))
	}
	var claims []string
	for i := range 10 {
		claims = append(claims, fmt.Sprintf(`{"name":"claim-%d.example.com","value":"value-%d"}`, i, i))
	}
	list("managedclusters", clusters, func(i int) string {
		return fmt.Sprintf(`{"metadata":{"name":"cluster-%05d","uid":"%d","resourceVersion":"1","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"cluster.open-cluster-management.io/clusterset":"s%d","env":"prod","region":"r%d"},"managedFields":[%s]},`+
			`"spec":{"hubAcceptsClient":true,"leaseDurationSeconds":60},"status":{"version":{"kubernetes":"v1.33.1"},"capacity":{"cpu":"64","memory":"%dMi","pods":"500"},"allocatable":{"cpu":"60","memory":"%dMi","pods":"480"},"clusterClaims":[%s],"conditions":[%s]}}`,
			i, i, i%20, i%7, strings.TrimSuffix(managed, ","), 4096+i, 4000+i, strings.Join(claims, ","), strings.Join(conditions, ","))
	})
	list("managedclustersets", 20, func(i int) string { return fmt.Sprintf(`{"metadata":{"name":"s%d"}}`, i) })
	list("managedclustersetbindings", 20, func(i int) string { return fmt.Sprintf(`{"metadata":{"name":"s%d","namespace":"n"}}`, i) })
	list("placementdecisions", 100, func(i int) string {
		var decided []string
		for j := range 100 {
			decided = append(decided, fmt.Sprintf(`{"clusterName":"cluster-%05d","reason":""}`, (i*37+j)%clusters))
		}
		return fmt.Sprintf(`{"metadata":{"name":"d%d","namespace":"n"},"status":{"decisions":[%s]}}`, i, strings.Join(decided, ","))
	})
	list("addonplacementscores", clusters, func(i int) string {
		return fmt.Sprintf(`{"metadata":{"name":"cost","namespace":"cluster-%05d"},"status":{"scores":[{"name":"hourly","value":%d}]}}`, i, i%100)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if body, ok := lists[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]; ok {
			_, _ = w.Write(body)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404})
	}))
	tb.Cleanup(server.Close)
	return server.URL
}

// previewOf reads the data source as Terraform does.
func previewOf(tb testing.TB, server tfprotov6.ProviderServer, set map[string]tftypes.Value) *tfprotov6.ReadDataSourceResponse {
	tb.Helper()
	const name = "muster_placement_preview"
	schemas, err := server.GetProviderSchema(context.Background(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		tb.Fatal(err)
	}
	object, _ := schemas.DataSourceSchemas[name].ValueType().(tftypes.Object)
	values := map[string]tftypes.Value{}
	for attribute, kind := range object.AttributeTypes {
		values[attribute] = tftypes.NewValue(kind, nil)
	}
	for attribute, value := range set {
		values[attribute] = value
	}
	config, err := tfprotov6.NewDynamicValue(object, tftypes.NewValue(object, values))
	if err != nil {
		tb.Fatal(err)
	}
	response, err := server.ReadDataSource(context.Background(), &tfprotov6.ReadDataSourceRequest{TypeName: name, Config: &config})
	if err != nil {
		tb.Fatal(err)
	}
	for _, d := range response.Diagnostics {
		tb.Fatalf("%s: %s", d.Summary, d.Detail)
	}
	return response
}

func BenchmarkPreview(b *testing.B) {
	number := tftypes.NewValue(tftypes.Number, 100)
	for name, set := range map[string]map[string]tftypes.Value{
		"explained":   {"number_of_clusters": number},
		"unexplained": {"number_of_clusters": number, "explain": tftypes.NewValue(tftypes.Bool, false)},
	} {
		b.Run(name, func(b *testing.B) {
			set["namespace"] = tftypes.NewValue(tftypes.String, "n")
			url := bigHub(b, 10_000)
			b.ResetTimer()
			for range b.N {
				previewOf(b, acctest.ConfiguredServer(b, url), set)
			}
		})
	}
}

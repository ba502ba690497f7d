package placement

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// stubHub answers lists by their paths, and nothing else.
func stubHub(t *testing.T, answers map[string]string) (*hub.Hub, *atomic.Int32) {
	t.Helper()
	requests := &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		body, ok := answers[name]
		switch {
		case !ok:
			body = `{"items":[]}`
		case body == "forbidden":
			w.WriteHeader(http.StatusForbidden)
			body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`
		case body == "invalid":
			w.WriteHeader(http.StatusUnprocessableEntity)
			body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"no"}`
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return hub.New(kube.Connection{Host: server.URL}, nil, "test"), requests
}

// oneCluster is a fleet of the cluster c1.
var oneCluster = map[string]string{
	"managedclusters":           `{"items":[{"metadata":{"name":"c1","labels":{"cluster.open-cluster-management.io/clusterset":"s"}}}]}`,
	"managedclustersets":        `{"items":[{"metadata":{"name":"s"}}]}`,
	"managedclustersetbindings": `{"items":[{"metadata":{"name":"s","namespace":"n"}}]}`,
}

func plannedPlacementOf(namespace, name string) values {
	return values{"namespace": types.StringValue(namespace), "name": types.StringValue(name)}
}

func TestAPlanShowsWhatAChangeSelects(t *testing.T) {
	h, requests := stubHub(t, oneCluster)
	r := &crud.Resource{Hub: h}
	for range 2 {
		diags := warnOfChange(t.Context(), r, plannedPlacementOf("n", "p"))
		if len(diags) != 1 || diags[0].Severity() != diag.SeverityWarning || diags[0].Summary() != `Placement "n/p" would add 1 and drop 0 of its clusters` || !strings.Contains(diags[0].Detail(), "c1.") {
			t.Fatalf("got %v", diags)
		}
	}
	// Five lists, and what the hub is.
	if n := requests.Load(); n != 6 {
		t.Errorf("two placements that are planned together cost %d requests, want 6", n)
	}
}

// with is a hub's answers, and more of them.
func with(answers map[string]string, more ...string) map[string]string {
	all := maps.Clone(answers)
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func TestAHubThatServesSnapshotsIsAskedForOne(t *testing.T) {
	const served = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"muster-hub-info"},"data":{"features":"FleetSnapshot"}}`
	const all = `{"clusters":[{"metadata":{"name":"c2","labels":{"cluster.open-cluster-management.io/clusterset":"s"}}}],"sets":[{"metadata":{"name":"s"}}],"bindings":[{"metadata":{"name":"s","namespace":"n"}}],"decisions":null,"scores":null,"now":"2020-01-01T00:00:00Z"}`
	for name, test := range map[string]struct {
		answers  map[string]string
		cluster  string
		requests int32
		problem  string
	}{
		"upstream's hub":                 {oneCluster, "c1", 6, ""},
		"a hub that serves them":         {with(oneCluster, "muster-hub-info", served, "snapshot", all), "c2", 2, ""},
		"it refuses":                     {with(oneCluster, "muster-hub-info", served, "snapshot", "forbidden"), "c1", 7, ""},
		"it refuses that, and the lists": {with(oneCluster, "muster-hub-info", served, "snapshot", "forbidden", "managedclusters", "forbidden"), "", 5, "list the managed clusters"},
		"its answer can't be read":       {with(oneCluster, "muster-hub-info", served, "snapshot", "<html>"), "", 2, "read the answer of"},
	} {
		t.Run(name, func(t *testing.T) {
			h, requests := stubHub(t, test.answers)
			f, err := h.LiveFleet(t.Context())
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Fatalf("got %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else if p := f.Preview(scheduled(plannedPlacementOf("n", "p")), false); !slices.Equal(p.Clusters, []string{test.cluster}) || time.Since(f.Now) > time.Minute {
				t.Errorf("it would select %q, at %s", p.Clusters, f.Now)
			}
			if n := requests.Load(); n != test.requests {
				t.Errorf("%d requests, want %d", n, test.requests)
			}
		})
	}
}

// What an apply has just written has to count in the previews that it reads.
func TestAnApplyReadsTheFleetItself(t *testing.T) {
	h, _ := stubHub(t, with(oneCluster,
		"muster-hub-info", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"muster-hub-info"},"data":{"features":"FleetSnapshot"}}`,
		"snapshot", `{"clusters":[]}`))
	var diags diag.Diagnostics
	client := h.WriteClient(&diags)
	f, err := h.Fleet(t.Context(), client)
	if err != nil || len(f.Clusters) != 1 {
		t.Errorf("got %v, %v", f, err)
	}
}

func TestAPlanSaysNothingWhere(t *testing.T) {
	gone, _ := stubHub(t, oneCluster)
	gone.Connection.Host = "https://127.0.0.1:1"
	forbidden, _ := stubHub(t, map[string]string{"placementdecisions": "forbidden"})
	answering, requests := stubHub(t, oneCluster)
	off, still := plannedPlacementOf("n", "p"), plannedPlacementOf("n", "p")
	off["preview"] = types.BoolValue(false)
	still["annotations"] = attribute.StringMapValue(map[string]string{cluster.SchedulingDisabledAnnotation: "true"})
	for name, test := range map[string]struct {
		hub  *hub.Hub
		plan values
	}{
		"the hub is away":               {gone, plannedPlacementOf("n", "p")},
		"the hub is still to be made":   {hub.New(kube.Connection{}, []string{"host"}, "test"), plannedPlacementOf("n", "p")},
		"there is no hub":               {hub.New(kube.Connection{}, nil, "test"), plannedPlacementOf("n", "p")},
		"the fleet may not be read":     {forbidden, plannedPlacementOf("n", "p")},
		"the configuration wants none":  {answering, off},
		"the scheduler is kept from it": {answering, still},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			if diags := warnOfChange(t.Context(), &crud.Resource{Hub: test.hub}, test.plan); len(diags) > 0 {
				t.Errorf("got %v", diags)
			}
			if took := time.Since(start); took >= hub.PreviewTimeout {
				t.Errorf("it took %s", took)
			}
		})
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("%d requests were made for nothing", n)
	}
}

func TestAHubThatIsAwayIsAskedOnce(t *testing.T) {
	h, requests := stubHub(t, map[string]string{"managedclustersetbindings": "forbidden"})
	for range 5 {
		if _, err := h.LiveFleet(t.Context()); err == nil || !strings.Contains(err.Error(), "list the cluster set bindings") {
			t.Fatalf("got %v", err)
		}
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("it was sent %d requests, want 2: what the hub is, and its bindings", n)
	}
}

func TestAHubsFeaturesDecideHowAPreviewGoes(t *testing.T) {
	for name, test := range map[string]struct {
		answers        map[string]string
		spreads, avoid bool
	}{
		"upstream's":             {map[string]string{"muster-hub-info": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"muster-hub-info"}}`}, false, false},
		"muster's":               {map[string]string{"muster-hub-info": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"muster-hub-info"},"data":{"features":"TokenScope"}}`}, true, false},
		"muster's with the gate": {map[string]string{"muster-hub-info": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"muster-hub-info"},"data":{"features":"TokenScope,PreferNoSelect"}}`}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := stubHub(t, test.answers)
			f, err := h.LiveFleet(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if f.Spreads != test.spreads || f.Options.PreferNoSelect != test.avoid {
				t.Errorf("spreads %v, avoids %v", f.Spreads, f.Options.PreferNoSelect)
			}
		})
	}
}

func TestWhichClustersAreSelected(t *testing.T) {
	decided := &clusterv1beta1.Placement{}
	decided.Namespace, decided.Name = "n", "p"
	decided.Status.Conditions = []metav1.Condition{{Type: cluster.ConditionPlacementSatisfied, Status: "False"}}
	for name, test := range map[string]struct {
		object *clusterv1beta1.Placement
		answer string
		want   types.List
		fails  bool
	}{
		"those of all decisions": {decided, `{"items":[{"status":{"decisions":[{"clusterName":"b"}]}},{"status":{"decisions":[{"clusterName":"a"}]}}]}`, names("a", "b"), false},
		"none":                   {decided, `{"items":[]}`, names(), false},
		"not yet decided":        {&clusterv1beta1.Placement{}, `{"items":[]}`, types.ListNull(types.StringType), false},
		"not to be read":         {decided, "forbidden", types.ListNull(types.StringType), false},
		"not readable":           {decided, "invalid", types.ListNull(types.StringType), true},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := stubHub(t, map[string]string{"placementdecisions": test.answer})
			var diags diag.Diagnostics
			got, err := selected(t.Context(), h.Client(&diags), test.object)
			if !got.Equal(test.want) || (err != nil) != test.fails || diags.HasError() {
				t.Errorf("got %s, want %s; %v %v", got, test.want, err, diags)
			}
		})
	}
}

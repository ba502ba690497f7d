package registration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// What an upstream hub would not keep is not promised.
func TestTokenScopeNeedsAHubThatKeepsIt(t *testing.T) {
	for name, x := range map[string]struct {
		maps   map[string]string
		values attribute.Values
		want   string // a part of the error
	}{
		"upstream's, with a limit":       {nil, attribute.Values{"max_clusters": types.Int64Value(2)}, "max_clusters is set"},
		"upstream's, with both":          {nil, attribute.Values{"max_clusters": types.Int64Value(2), "cluster_labels": attribute.StringMapValue(map[string]string{"a": "b"})}, "cluster_labels and max_clusters is set"},
		"upstream's, without":            {nil, attribute.Values{}, ""},
		"muster's, with a limit":         {map[string]string{"muster-hub-info": `{"features":"TokenScope"}`}, attribute.Values{"max_clusters": types.Int64Value(2)}, ""},
		"an older muster's, with labels": {map[string]string{"muster-hub-info": `{"features":"BoundBootstrapApproval"}`}, attribute.Values{"cluster_labels": attribute.StringMapValue(map[string]string{"a": "b"})}, "cluster_labels is set"},
	} {
		t.Run(name, func(t *testing.T) {
			h, client := publishing(t, x.maps)
			var diags diag.Diagnostics
			c := &tokenChange{Resource: &crud.Resource{Hub: h}, Client: client, Plan: x.values, Diagnostics: &diags}
			if ok := keepsScope(t.Context(), c); ok != (x.want == "") {
				t.Errorf("kept: %v, %v", ok, diags)
			}
			if x.want != "" && (!diags.HasError() || !strings.Contains(diags[0].Detail(), x.want)) {
				t.Errorf("got %v, want %q", diags, x.want)
			}
		})
	}
}

func TestTokensRoundTrip(t *testing.T) {
	made, err := bootstraptoken.New(cluster.BoundBootstrapGroup("c1")+","+cluster.BoundBootstrapGroup("c2"), "why", time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	token := &bootstrapToken{Token: made, Clusters: []string{"c1", "c2"}, TTL: "1h"}
	token.Scope = cluster.TokenScope{Labels: map[string]string{"env": "prod"}, MaxClusters: 3}
	secret := token.Object()
	token.write(secret)
	if got := tokenOf(secret); !reflect.DeepEqual(got, token) {
		t.Errorf("got %+v, want %+v", got, token)
	}
	if !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`).MatchString(token.String()) {
		t.Errorf("%q has not the form of a token", token)
	}
	other, err := bootstraptoken.New("g", "", time.Time{})
	if err != nil || other.ID == token.ID || other.Secret == token.Secret {
		t.Errorf("two tokens are alike: %v, %v, %v", token, other, err)
	}
}

// publishing is a hub with these config maps in kube-public.
func publishing(t *testing.T, maps map[string]string) (*hub.Hub, *kube.Client) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		data, ok := maps[name]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":%q,"kind":"configmaps"}}`, name)
			return
		}
		_, _ = fmt.Fprintf(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q},"data":%s}`, name, data)
	}))
	t.Cleanup(server.Close)
	h := hub.New(kube.Connection{Host: server.URL}, nil, "test")
	var diags diag.Diagnostics
	client := h.Client(&diags)
	if diags.HasError() {
		t.Fatal(diags)
	}
	return h, client
}

func TestTokensAreBoundWhereTheHubKnowsHow(t *testing.T) {
	musterHub := map[string]string{"muster-hub-info": `{"features":"Other,BoundBootstrapApproval"}`}
	for name, test := range map[string]struct {
		maps     map[string]string
		clusters []string
		want     string
		warns    bool
	}{
		"muster's hub":                   {musterHub, []string{"c1"}, cluster.BoundBootstrapGroup("c1"), false},
		"muster's hub, two clusters":     {musterHub, []string{"c1", "c2"}, cluster.BoundBootstrapGroup("c1") + "," + cluster.BoundBootstrapGroup("c2"), false},
		"an upstream hub":                {nil, []string{"c1"}, cluster.BootstrapGroup, true},
		"a hub without that feature":     {map[string]string{"muster-hub-info": `{"features":"Other"}`}, []string{"c1"}, cluster.BootstrapGroup, true},
		"any cluster, on muster's hub":   {musterHub, nil, cluster.BootstrapGroup, false},
		"any cluster, on upstream's hub": {nil, nil, cluster.BootstrapGroup, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, client := publishing(t, test.maps)
			var diags diag.Diagnostics
			got, err := tokenGroups(t.Context(), h, client, test.clusters, &diags)
			if err != nil || got != test.want || (diags.WarningsCount() > 0) != test.warns {
				t.Errorf("got %q, %v, %v, want %q", got, err, diags, test.want)
			}
		})
	}
}

func TestAgentsAreSentWhereTheHubSaysItIs(t *testing.T) {
	published := map[string]string{"cluster-info": `{"kubeconfig":"apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster: {server: \"https://public:6443\", certificate-authority-data: Y2E=}\n"}`}
	for name, test := range map[string]struct {
		maps       map[string]string
		server, ca string
		want       func(own string) Endpoint
	}{
		"published":            {published, "", "", func(string) Endpoint { return Endpoint{"https://public:6443", []byte("ca")} }},
		"nothing published":    {nil, "", "", func(own string) Endpoint { return Endpoint{own, nil} }},
		"server configured":    {published, "https://lb", "", func(string) Endpoint { return Endpoint{"https://lb", []byte("ca")} }},
		"authority configured": {published, "", "mine", func(string) Endpoint { return Endpoint{"https://public:6443", []byte("mine")} }},
		"both configured":      {nil, "https://lb", "mine", func(string) Endpoint { return Endpoint{"https://lb", []byte("mine")} }},
	} {
		t.Run(name, func(t *testing.T) {
			h, client := publishing(t, test.maps)
			got, err := Bootstrap{Server: test.server, CA: test.ca}.Endpoint(t.Context(), h, client)
			want := test.want(client.Host())
			if err != nil || got.Server != want.Server || string(got.CA) != string(want.CA) {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

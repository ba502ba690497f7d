package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// printStatus prints the status of a fleet as tables.
func printStatus(t *testing.T, out io.Writer, c client.Client) error {
	t.Helper()
	s, err := readFleet(t.Context(), c)
	if err != nil {
		return err
	}
	return s.print(out, rowsShown(false))
}

// inCluster is an add-on in a cluster, with conditions of the form
// Type=Status/Reason/Message.
func inCluster(cluster, name string, conditions ...string) *addonv1alpha1.ManagedClusterAddOn {
	a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name}}
	for _, c := range conditions {
		kind, rest, _ := strings.Cut(c, "=")
		parts := append(strings.SplitN(rest, "/", 3), "", "")
		a.Status.Conditions = append(a.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(parts[0]), Reason: parts[1], Message: parts[2]})
	}
	return a
}

// addOnFleet is three clusters with two add-ons: all kinds of trouble are in it.
func addOnFleet() *fake.ClientBuilder {
	definition := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "hello"}}
	definition.Status.InstallProgressions = []addonv1alpha1.InstallProgression{{
		PlacementRef: addonv1alpha1.PlacementRef{Namespace: "default", Name: "production"},
		Conditions:   []metav1.Condition{{Type: "Progressing", Status: "True", Reason: "Progressing", Message: "selected clusters 3. configured addons 2/3 progressing..., 1 failed 0 timeout."}},
	}}
	going := inCluster("c3", "going", "Available=True", "Progressing=False/Completed", "HookManifestCompleted=False/HookManifestIsNotCompleted/the job runs")
	now := metav1.Now()
	going.DeletionTimestamp, going.Finalizers = &now, []string{"addon.open-cluster-management.io/addon-pre-delete"}
	return fake.NewClientBuilder().WithScheme(api.Scheme()).WithObjects(
		member("c1", 1, muster.ReasonEndpointCurrent, metav1.ConditionTrue),
		member("c2", 1, muster.ReasonEndpointCurrent, metav1.ConditionTrue),
		member("c3", 1, muster.ReasonEndpointCurrent, metav1.ConditionUnknown),
		member("none", 1, muster.ReasonEndpointCurrent, metav1.ConditionTrue),
		definition, &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "nowhere"}},
		inCluster("c1", "hello", "Available=True/ok/fine", "Progressing=False/Completed", "Configured=True"),
		inCluster("c2", "hello", "Available=False/ManagedClusterAddOnLeaseUpdateStopped/hello add-on is not available.", "Progressing=True/Progressing"),
		inCluster("c3", "hello", "Available=Unknown/ManagedClusterLeaseUpdateStopped/silent", "Progressing=False/Completed", "Configured=False/ConfigurationsNotConfigured/waits"),
		inCluster("c1", "own", "RegistrationApplied=False/SetPermissionFailed/no\x1b[2Jrights\nat all"),
		inCluster("c2", "own", "Progressing=False/ConfigurationUnsupported/Configuration with gvr x/y is not supported for this addon", "Available=True"),
		going,
	)
}

func squeezed(out string) string { return regexp.MustCompile(` +`).ReplaceAllString(out, " ") }

func TestStatusReportsAddOns(t *testing.T) {
	var out bytes.Buffer
	if err := printStatus(t, &out, addOnFleet().Build()); err != nil {
		t.Fatal(err)
	}
	said := squeezed(out.String())
	for _, want := range []string{
		"c1 - false True True Current - 1 available, 1 progressing\n",
		"c2 - false True True Current - 1 available, 1 unhealthy, 1 progressing\n",
		"c3 - false True Unknown Current - 1 available, 1 unreachable, 1 progressing\n",
		"none - false True True Current - -\n",
		"ADDON CLUSTERS AVAILABLE UNHEALTHY UNREACHABLE PROGRESSING\n",
		"hello 3 1 1 1 2\n", "nowhere 0 0 0 0 0\n", "own 2 1 0 0 1\n",
		"hello default/production Progressing selected clusters 3. configured addons 2/3 progressing..., 1 failed 0 timeout.\n",
		"hello Available=False ManagedClusterAddOnLeaseUpdateStopped c2 hello add-on is not available.\n",
		"hello Available=Unknown ManagedClusterLeaseUpdateStopped c3 silent\n",
		"own RegistrationApplied=False SetPermissionFailed c1 no [2Jrights at all\n",
		"own Progressing=False ConfigurationUnsupported c2 Configuration with gvr x/y is not supported for this addon\n",
		"going Deleting=True WaitsForFinalizers c3 finalizers addon.open-cluster-management.io/addon-pre-delete\n",
		"going HookManifestCompleted=False HookManifestIsNotCompleted c3 the job runs\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if strings.ContainsRune(out.String(), '\x1b') || strings.Contains(said, "waits") {
		t.Errorf("a terminal would obey it, or waiting for one's turn counts as a problem:\n%q", said)
	}
}

func TestStatusPutsEqualProblemsTogether(t *testing.T) {
	b := fake.NewClientBuilder().WithScheme(api.Scheme())
	for i := range 30 {
		b.WithObjects(inCluster(fmt.Sprintf("c%02d", i), "same", "Available=False/Stopped/it is not available"),
			inCluster(fmt.Sprintf("c%02d", i), "each", fmt.Sprintf("Available=False/Stopped/%d%s", i, strings.Repeat("é", 40_000))))
	}
	c := b.Build()
	var out bytes.Buffer
	if err := printStatus(t, &out, c); err != nil {
		t.Fatal(err)
	}
	said := squeezed(out.String())
	first := "NEEDS ATTENTION CONDITION REASON CLUSTERS MESSAGE\nsame Available=False Stopped c00,c01,c02,c03,c04,c05,c06,c07,c08,c09 and 20 more it is not available\n"
	if !strings.Contains(said, first) || !strings.Contains(said, "and 21 more problems: --all shows them\n") {
		t.Errorf("it says\n%s", said)
	}
	if len(said) > 50_000 {
		t.Errorf("it says %d bytes", len(said))
	}
	s, err := readFleet(t.Context(), c)
	if err != nil || len(s.Attention) != 31 || len(s.Attention[0].Clusters) != 30 {
		t.Errorf("got %d problems, %v", len(s.Attention), err)
	}
}

func TestStatusNamesConfigurationsThatDoNotExist(t *testing.T) {
	b := fake.NewClientBuilder().WithScheme(api.Scheme())
	for _, cluster := range []string{"paris", "rome"} {
		a := inCluster(cluster, "typo", "RegistrationApplied=False/SetPermissionFailed/no role in "+cluster)
		a.Status.ConfigReferences = []addonv1alpha1.ConfigReference{
			{},
			{ConfigGroupResource: addonv1alpha1.ConfigGroupResource{Group: "g", Resource: "known"}, DesiredConfig: &addonv1alpha1.ConfigSpecHash{SpecHash: "h"}},
			{ConfigGroupResource: addonv1alpha1.ConfigGroupResource{Group: "g", Resource: "templates"}, DesiredConfig: &addonv1alpha1.ConfigSpecHash{ConfigReferent: addonv1alpha1.ConfigReferent{Name: "missing"}}},
		}
		b.WithObjects(a)
	}
	var out bytes.Buffer
	if err := printStatus(t, &out, b.Build()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"typo Configured=True NotFound paris,rome the templates.g missing does not exist, or the add-on's manager has not read it: nothing is deployed before that\n",
		"typo RegistrationApplied=False SetPermissionFailed paris,rome no role in paris\n", // once, though the messages name their clusters
	} {
		if said := squeezed(out.String()); !strings.Contains(said, want) || strings.Contains(said, "known") {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}

func TestStatusAsJSON(t *testing.T) {
	s, err := readFleet(t.Context(), addOnFleet().Build())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.printJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Clusters []struct {
			Name   string
			Joined string
			AddOns map[string]int
		}
		Placements, Works []any
		AddOns            []map[string]any
		Attention         []attention `json:"addOnsNeedingAttention"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	if len(got.Clusters) != 4 || got.Clusters[1].Joined != "True" || got.Clusters[1].AddOns["unhealthy"] != 1 || got.Placements == nil || got.Works == nil {
		t.Errorf("got %+v", got)
	}
	if len(got.AddOns) != 4 || got.AddOns[1]["name"] != "hello" || got.AddOns[1]["progressing"] != 2.0 || len(got.Attention) != 6 {
		t.Errorf("got %v and %v", got.AddOns, got.Attention)
	}
}

// TestStatusListsEachKindOnce counts the requests: their number does not depend on
// how many clusters and add-ons there are.
func TestStatusListsEachKindOnce(t *testing.T) {
	lists, gets := 0, 0
	b := addOnFleet().WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			lists++
			return c.List(ctx, list, options...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			gets++
			return c.Get(ctx, key, o, options...)
		},
	})
	if _, err := readFleet(t.Context(), b.Build()); err != nil || lists != 8 || gets != 1 {
		t.Errorf("%d lists and %d single reads, %v; want 8 and 1", lists, gets, err)
	}
}

func TestStatusWithoutRightsToAddOns(t *testing.T) {
	for name, x := range map[string]struct {
		refused error
		want    string
	}{
		"forbidden":             {apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")), "not shown: the add-ons of the clusters, which you may not list\n"},
		"a hub without add-ons": {apierrors.NewNotFound(schema.GroupResource{}, ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := addOnFleet().WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					switch list.(type) {
					case *addonv1alpha1.ManagedClusterAddOnList, *addonv1alpha1.ClusterManagementAddOnList:
						return x.refused
					}
					return c.List(ctx, list, options...)
				},
			})
			var out bytes.Buffer
			if err := printStatus(t, &out, b.Build()); err != nil {
				t.Fatal(err)
			}
			said := out.String()
			if !strings.Contains(said, "c1 ") || !strings.Contains(said, x.want) || strings.Contains(said, "UNHEALTHY") || x.want == "" && strings.Contains(said, "not shown") {
				t.Errorf("it says\n%s", said)
			}
		})
	}
}

func TestStatusRefusesOtherFormats(t *testing.T) {
	cmd := newStatusCommand()
	cmd.SetArgs([]string{"-o", "yaml"})
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	if err := cmd.Execute(); err == nil || err.Error() != `--output "yaml" is no format: use table or json` {
		t.Errorf("got %v", err)
	}
}

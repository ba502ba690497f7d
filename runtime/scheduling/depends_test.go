package scheduling_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

func compiled(t testing.TB, spec string) *scheduling.Compiled {
	t.Helper()
	return scheduling.Compile(&clusterv1beta1.Placement{Spec: specOf(t, spec)}, scheduling.Options{})
}

const (
	byEnv       = `predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: env, operator: In, values: [prod, stage]}]}}}]`
	notEnv      = `predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: env, operator: NotIn, values: [prod]}]}}}]`
	anyEnv      = `predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: env, operator: Exists}]}}}]`
	byPlatform  = `predicates: [{requiredClusterSelector: {claimSelector: {matchExpressions: [{key: platform, operator: In, values: [aws]}]}}}]`
	byObject    = `predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["has(managedCluster.metadata.labels.env)"]}}}]`
	byCPU       = `prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: ResourceAllocatableCPU}}]}`
	byGroup     = `decisionStrategy: {groupStrategy: {decisionGroups: [{groupName: g, groupClusterSelector: {labelSelector: {matchLabels: {env: prod}}}}]}}`
	bySpread    = `{numberOfClusters: 2, spreadPolicy: {spreadConstraints: [{topologyKey: env, topologyKeyType: Label}, {topologyKey: platform, topologyKeyType: Claim}]}}`
	spreadOfAll = `spreadPolicy: {spreadConstraints: [{topologyKey: env, topologyKeyType: Label}]}`
)

func TestWhatAChangeOfAClusterConcerns(t *testing.T) {
	labelled := func(env string) func(*clusterv1.ManagedCluster) {
		return func(c *clusterv1.ManagedCluster) { c.Labels = map[string]string{"env": env} }
	}
	claims := func(platform string) func(*clusterv1.ManagedCluster) {
		return func(c *clusterv1.ManagedCluster) {
			c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "platform", Value: platform}}
		}
	}
	cpu := func(allocatable, capacity string) func(*clusterv1.ManagedCluster) {
		return func(c *clusterv1.ManagedCluster) {
			c.Status.Allocatable = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse(allocatable)}
			if capacity != "" {
				c.Status.Capacity = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse(capacity)}
			}
		}
	}
	nothing := func(*clusterv1.ManagedCluster) {}
	for name, x := range map[string]struct {
		spec    string
		was, is func(*clusterv1.ManagedCluster)
		want    bool
	}{
		"a value that is asked for":                      {byEnv, labelled("dev"), labelled("prod"), true},
		"one that no longer is":                          {byEnv, labelled("prod"), labelled("dev"), true},
		"neither value is asked for":                     {byEnv, labelled("dev"), labelled("test"), false},
		"the value is gone, and was not asked for":       {byEnv, labelled("dev"), nothing, false},
		"the value is gone, and was asked for":           {byEnv, labelled("prod"), nothing, true},
		"from a value that is asked for to another":      {byEnv, labelled("prod"), labelled("stage"), true}, // groups may tell them apart
		"neither value is kept out":                      {notEnv, labelled("dev"), labelled("test"), false},
		"a value that is kept out":                       {notEnv, nothing, labelled("prod"), true},
		"another value, when it matters if there is one": {anyEnv, labelled("dev"), labelled("test"), false},
		"a value comes, when it matters if there is one": {anyEnv, nothing, labelled("test"), true},
		"a claim that is asked for":                      {byPlatform, nothing, claims("aws"), true},
		"a claim that is not":                            {byPlatform, claims("gcp"), claims("azure"), false},
		"a label is no claim":                            {byPlatform, labelled("dev"), labelled("prod"), false},
		"a label that divides into groups":               {byGroup, labelled("dev"), labelled("prod"), true},
		"a label that does not":                          {byGroup, labelled("dev"), labelled("test"), false},
		"a label to spread over":                         {bySpread, labelled("dev"), labelled("test"), true},
		"a claim to spread over":                         {bySpread, nothing, claims("aws"), true},
		"a label to spread over, when all are chosen":    {spreadOfAll, labelled("dev"), labelled("test"), false},
		"a resource that counts":                         {byCPU, cpu("1", "2"), cpu("2", "2"), true},
		"its capacity comes":                             {byCPU, cpu("1", ""), cpu("1", "2"), true},
		"its capacity grows":                             {byCPU, cpu("1", "2"), cpu("1", "4"), false},
		"it is written in another way":                   {byCPU, cpu("1", "2"), cpu("1000m", "2"), false},
		"a resource that does not count":                 {byEnv, cpu("1", "2"), cpu("2", "2"), false},
		"whatever an expression sees":                    {byObject, nothing, cpu("1", "2"), true},
		"nothing":                                        {`{}`, labelled("dev"), claims("aws"), false},
	} {
		t.Run(name, func(t *testing.T) {
			was, is := clusters("a")[0], clusters("a")[0]
			x.was(was)
			x.is(is)
			d := compiled(t, x.spec).Depends()
			if got := d.Concerned(was, is); got != x.want {
				t.Errorf("concerned: %v, want %v", got, x.want)
			}
		})
	}
}

func TestDependsNamesScoresAndResources(t *testing.T) {
	d := compiled(t, `{predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.scores('x').size() > 0"]}}}],
prioritizerPolicy: {configurations: [
{scoreCoordinate: {type: AddOn, addOn: {resourceName: cost, scoreName: hourly}}},
{scoreCoordinate: {type: AddOn, addOn: {resourceName: cost, scoreName: daily}}},
{scoreCoordinate: {type: AddOn, addOn: {resourceName: off, scoreName: s}}, weight: 0},
{scoreCoordinate: {type: AddOn, addOn: {resourceName: carbon, scoreName: hourly}}},
{scoreCoordinate: {builtIn: ResourceAllocatableMemory}}]}}`).Depends()
	if !slices.Equal(d.Scores, []string{"carbon", "cost"}) || !slices.Equal(d.Resources, []clusterv1.ResourceName{"memory"}) || !d.Object || !d.ObjectScores {
		t.Errorf("got %+v", d)
	}
	if d := compiled(t, byObject).Depends(); !d.Object || d.ObjectScores {
		t.Errorf("an expression without scores depends on %+v", d)
	}
	d = compiled(t, byEnv).Depends()
	if want := map[string]scheduling.Values{"env": {Equal: []string{"prod", "stage"}}}; !reflect.DeepEqual(d.Labels, want) || d.Object {
		t.Errorf("labels %v, want %v", d.Labels, want)
	}
}

// A change that is said to concern nothing changes nothing.
func TestWhatConcernsNothingChangesNothing(t *testing.T) {
	seed := uint64(now.Unix())
	random := rand.New(rand.NewPCG(seed, 2))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	cluster := func() *clusterv1.ManagedCluster {
		c := clusters("a")[0]
		c.Labels = map[string]string{}
		for _, key := range []string{"env", "zone"} {
			if v := pick("", "prod", "stage", "dev", "test"); v != "" {
				c.Labels[key] = v
			}
		}
		if v := pick("", "aws", "gcp", "azure"); v != "" {
			c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "platform", Value: v}}
		}
		c.Status.Allocatable = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse(pick("1", "2", "4"))}
		if random.IntN(2) > 0 {
			c.Status.Capacity = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse(pick("4", "8"))}
		}
		return c
	}
	others := regions("prod:b dev:c")
	concerned := 0
	const rounds = 2000
	for range rounds {
		requirement := func(keys ...string) string {
			key, op := pick(keys...), pick("In", "NotIn", "Exists", "DoesNotExist")
			if op == "Exists" || op == "DoesNotExist" {
				return fmt.Sprintf("{key: %s, operator: %s}", key, op)
			}
			return fmt.Sprintf("{key: %s, operator: %s, values: [%s, %s]}", key, op, pick("prod", "aws"), pick("stage", "gcp", "dev"))
		}
		spec := fmt.Sprintf(`{predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [%s]}}}, {requiredClusterSelector: {claimSelector: {matchExpressions: [%s]}}}],
decisionStrategy: {groupStrategy: {decisionGroups: [{groupName: g, groupClusterSelector: {labelSelector: {matchExpressions: [%s]}}}]}}, %s}`,
			requirement("env", "zone"), requirement("platform"), requirement("env"), pick(byCPU, spreadOfAll))
		c := compiled(t, spec)
		d := c.Depends()
		was, is := cluster(), cluster()
		if d.Concerned(was, is) {
			concerned++
			continue
		}
		before := c.Schedule(input(c.Placement().Spec, append([]*clusterv1.ManagedCluster{was}, others...)))
		after := c.Schedule(input(c.Placement().Spec, append([]*clusterv1.ManagedCluster{is}, others...)))
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("seed %d: from %+v to %+v concerns nothing, and changes\n%+v to\n%+v\nof %s", seed, was, is, before, after, spec)
		}
	}
	if concerned < rounds/4 || concerned > rounds*9/10 {
		t.Errorf("%d of %d changes concern a placement: the fleets are not what the test needs", concerned, rounds)
	}
}

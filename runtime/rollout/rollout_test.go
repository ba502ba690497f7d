package rollout_test

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// row is one sentence about rollouts. Groups are written as "0:a,b 1/canary:c",
// statuses as "a=Succeeded@5m", which is five minutes ago, and "a=Progressing"
// where it is not known since when.
type row struct {
	name     string
	strategy clusterv1alpha1.RolloutStrategy
	groups   string
	existing string
	want     string
}

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			got, err := rollout.Decide(r.strategy, groups(t, r.groups), statuses(t, r.existing), noon)
			if err != nil {
				t.Fatal(err)
			}
			if text := render(got); text != r.want {
				t.Errorf("got  %s\nwant %s", text, r.want)
			}
		})
	}
}

func groups(t testing.TB, text string) (out []rollout.Group) {
	t.Helper()
	for field := range strings.FieldsSeq(text) {
		key, clusters, _ := strings.Cut(field, ":")
		index, name, _ := strings.Cut(key, "/")
		n, err := strconv.ParseInt(index, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		g := rollout.Group{Index: int32(n), Name: name}
		if clusters != "" {
			g.Clusters = strings.Split(clusters, ",")
		}
		out = append(out, g)
	}
	return out
}

func statuses(t testing.TB, text string) (out []rollout.ClusterStatus) {
	t.Helper()
	for field := range strings.FieldsSeq(text) {
		cluster, rest, _ := strings.Cut(field, "=")
		status, ago, known := strings.Cut(rest, "@")
		s := rollout.ClusterStatus{Cluster: cluster, Status: rollout.Status(status)}
		if known {
			d, err := time.ParseDuration(ago)
			if err != nil {
				t.Fatal(err)
			}
			s.Since = noon.Add(-d)
		}
		out = append(out, s)
	}
	return out
}

func render(r rollout.Result) string {
	var out []string
	add := func(what string, list []rollout.ClusterStatus) {
		for _, s := range list {
			out = append(out, what+s.Cluster+"="+string(s.Status))
		}
	}
	add("", r.ToRollout)
	add("timed-out:", r.TimedOut)
	add("removed:", r.Removed)
	if r.MaxFailureBreach {
		out = append(out, "breach")
	}
	if r.RecheckAfter != 0 {
		out = append(out, fmt.Sprintf("recheck:%s", r.RecheckAfter))
	}
	return strings.Join(out, " ")
}

func all(deadline string) clusterv1alpha1.RolloutStrategy {
	return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeAll, All: &clusterv1alpha1.RolloutAll{RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: deadline}}}
}

// option changes the settings of a progressive strategy.
type option func(*clusterv1alpha1.RolloutConfig, *clusterv1alpha1.MandatoryDecisionGroups, *intstr.IntOrString)

func concurrency(v string) option {
	return func(_ *clusterv1alpha1.RolloutConfig, _ *clusterv1alpha1.MandatoryDecisionGroups, c *intstr.IntOrString) {
		*c = intstr.Parse(v)
	}
}

func failures(v string) option {
	return func(c *clusterv1alpha1.RolloutConfig, _ *clusterv1alpha1.MandatoryDecisionGroups, _ *intstr.IntOrString) {
		c.MaxFailures = intstr.Parse(v)
	}
}

func soak(v string) option {
	return func(c *clusterv1alpha1.RolloutConfig, _ *clusterv1alpha1.MandatoryDecisionGroups, _ *intstr.IntOrString) {
		c.MinSuccessTime = v
	}
}

func deadline(v string) option {
	return func(c *clusterv1alpha1.RolloutConfig, _ *clusterv1alpha1.MandatoryDecisionGroups, _ *intstr.IntOrString) {
		c.ProgressDeadline = v
	}
}

func mandatory(groups ...clusterv1alpha1.MandatoryDecisionGroup) option {
	return func(_ *clusterv1alpha1.RolloutConfig, m *clusterv1alpha1.MandatoryDecisionGroups, _ *intstr.IntOrString) {
		m.MandatoryDecisionGroups = groups
	}
}

func group(name string, index int32) clusterv1alpha1.MandatoryDecisionGroup {
	return clusterv1alpha1.MandatoryDecisionGroup{GroupName: name, GroupIndex: index}
}

func progressive(options ...option) clusterv1alpha1.RolloutStrategy {
	p := &clusterv1alpha1.RolloutProgressive{}
	for _, o := range options {
		o(&p.RolloutConfig, &p.MandatoryDecisionGroups, &p.MaxConcurrency)
	}
	return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressive, Progressive: p}
}

func perGroup(options ...option) clusterv1alpha1.RolloutStrategy {
	p := &clusterv1alpha1.RolloutProgressivePerGroup{}
	for _, o := range options {
		o(&p.RolloutConfig, &p.MandatoryDecisionGroups, &intstr.IntOrString{})
	}
	return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressivePerGroup, ProgressivePerGroup: p}
}

func TestOneCluster(t *testing.T) {
	check(t, []row{
		{"one that never had the change gets it", all("None"), "0:a", "", "a=ToApply"},
		{"one that has yet to take it in stays in the rollout", all("None"), "0:a", "a=ToApply@1h", "a=ToApply"},
		{"one that succeeded is done", all("None"), "0:a", "a=Succeeded@1s", ""},
		{"one that succeeded is done, though nobody knows when", all("None"), "0:a", "a=Succeeded", ""},
		{"one that was given up before is done", all("1m"), "0:a", "a=TimeOut@1h", ""},
		{"one to skip is done", all("1m"), "0:a", "a=Skip@1h", ""},
		{"progress without a deadline goes on", all("None"), "0:a", "a=Progressing@9000h", "a=Progressing"},
		{"no deadline at all is like None", all(""), "0:a", "a=Progressing@9000h", "a=Progressing"},
		{"failure without a deadline goes on", all("None"), "0:a", "a=Failed@9000h", "a=Failed"},
		{"progress before the deadline is looked at again then", all("5m"), "0:a", "a=Progressing@2m", "a=Progressing recheck:3m0s"},
		{"failure before the deadline is looked at again then", all("5m"), "0:a", "a=Failed@2m", "a=Failed recheck:3m0s"},
		{"progress at the deadline has timed out", all("5m"), "0:a", "a=Progressing@5m", "timed-out:a=TimeOut"},
		{"failure after the deadline has timed out", all("5m"), "0:a", "a=Failed@6m", "timed-out:a=TimeOut"},
		{"a deadline of 0s gives up whatever makes progress", all("0s"), "0:a", "a=Progressing@0s", "timed-out:a=TimeOut"},
		{"a deadline of 0s gives up progress of an unknown time, too", all("0s"), "0:a", "a=Progressing", "timed-out:a=TimeOut"},
		{"progress of an unknown time never times out", all("5m"), "0:a", "a=Progressing", "a=Progressing recheck:5m0s"},
		{"an unknown status counts as progress", all("5m"), "0:a", "a=Odd@6m", "timed-out:a=TimeOut"},
		{"success within minSuccessTime stays in the rollout", progressive(soak("5m")), "0:a", "a=Succeeded@2m", "a=Succeeded recheck:3m0s"},
		{"success after minSuccessTime is done", progressive(soak("5m")), "0:a", "a=Succeeded@5m", ""},
		{"success of an unknown time is never old enough", progressive(soak("5m")), "0:a", "a=Succeeded", "a=Succeeded recheck:5m0s"},
		{"the soonest of all deadlines and soaks is when to look again", progressive(soak("9m"), deadline("5m"), failures("2")), "0:a,b,c,d", "a=Succeeded@1m b=Progressing@1m c=Failed@3m d=ToApply",
			"a=Succeeded b=Progressing c=Failed d=ToApply recheck:2m0s"},
		{"a name that is missing is passed over", all("None"), "0:a", "=Failed", "a=ToApply"},
		{"one that is in no decision any more is removed", progressive(concurrency("1")), "0:a", "x=Progressing@1h b=Failed@1h", "a=ToApply removed:b=Failed removed:x=Progressing"},
		{"nothing is selected, nothing happens", progressive(), "", "", ""},
	})
}

func TestAll(t *testing.T) {
	strategy := all("5m")
	strategy.All.MinSuccessTime, strategy.All.MaxFailures = "1h", intstr.FromInt32(1)
	check(t, []row{
		{"everybody gets it at once", all("None"), "0:b,a 1:c", "", "a=ToApply b=ToApply c=ToApply"},
		{"failures never stop it", all("None"), "0:a,b,c", "a=Failed@1m b=Failed@1m", "a=Failed b=Failed c=ToApply"},
		{"only its deadline counts, not minSuccessTime and maxFailures", strategy, "0:a,b,c,d", "a=Succeeded@1m b=Failed@1m c=Failed@9m",
			"b=Failed d=ToApply timed-out:c=TimeOut recheck:4m0s"},
		{"without settings there is no deadline", clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeAll}, "0:a,b", "a=Progressing@99h", "a=Progressing b=ToApply"},
	})
}

func TestThresholds(t *testing.T) {
	ten := "0:a,b,c,d,e,f,g,h,i,j"
	first := func(n int) string {
		var out []string
		for _, c := range strings.Split(strings.TrimPrefix(ten, "0:"), ",")[:n] {
			out = append(out, c+"=ToApply")
		}
		return strings.Join(out, " ")
	}
	check(t, []row{
		{"maxConcurrency as a number", progressive(concurrency("3")), ten, "", first(3)},
		{"maxConcurrency of all clusters", progressive(concurrency("10")), ten, "", first(10)},
		{"maxConcurrency as a percentage", progressive(concurrency("20%")), ten, "", first(2)},
		{"percentages are rounded up", progressive(concurrency("21%")), ten, "", first(3)},
		{"percentages are as inexact as upstream's", progressive(concurrency("28%"), failures("28%")), "0:a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y",
			"a=TimeOut@1h b=TimeOut@1h c=TimeOut@1h d=TimeOut@1h e=TimeOut@1h f=TimeOut@1h g=TimeOut@1h h=TimeOut@1h",
			"i=ToApply j=ToApply k=ToApply l=ToApply m=ToApply n=ToApply o=ToApply p=ToApply"},
		{"percentages may have a fraction", progressive(concurrency("10.5%")), ten, "", first(2)},
		{"maxConcurrency that is not set means no limit", progressive(), ten, "", first(10)},
		{"maxConcurrency of 0 means no limit", progressive(concurrency("0")), ten, "", first(10)},
		{"maxConcurrency of 0% means no limit", progressive(concurrency("0%")), ten, "", first(10)},
		{"maxConcurrency below 0 means no limit", progressive(concurrency("-2")), ten, "", first(10)},
		{"maxConcurrency beyond the clusters means no limit", progressive(concurrency("11")), ten, "", first(10)},
		{"maxConcurrency beyond 100% means no limit", progressive(concurrency("101%")), ten, "", first(10)},

		{"as many failures as maxFailures do not stop it", progressive(failures("2")), ten, "a=Failed@1m b=Failed@1m c=Succeeded@1m d=Succeeded@1m e=Succeeded@1m f=Succeeded@1m g=Succeeded@1m h=Succeeded@1m", "a=Failed b=Failed i=ToApply j=ToApply"},
		{"more failures than maxFailures stop it", progressive(failures("1")), ten, "a=Failed@1m b=Failed@1m", "a=Failed b=Failed breach"},
		{"maxFailures as a percentage is rounded up", progressive(failures("11%"), concurrency("3")), ten, "a=Failed@1m b=Failed@1m", "a=Failed b=Failed c=ToApply"},
		{"one more than the percentage stops it", progressive(failures("11%"), concurrency("4")), ten, "a=Failed@1m b=Failed@1m c=Failed@1m", "a=Failed b=Failed c=Failed breach"},
		{"without maxFailures one failure stops it", progressive(concurrency("3")), ten, "a=Failed@1m", "a=Failed breach"},
		{"maxFailures of 0% is like none", progressive(failures("0%"), concurrency("3")), ten, "a=Failed@1m", "a=Failed breach"},
		{"maxFailures beyond the clusters becomes 0", progressive(failures("11"), concurrency("3")), ten, "a=Failed@1m", "a=Failed breach"},
		{"maxFailures of all clusters is taken as it is", progressive(failures("10"), concurrency("3")), ten, "a=Failed@1m b=Failed@1m", "a=Failed b=Failed c=ToApply"},
		{"maxFailures is of all clusters, the mandatory ones included", progressive(failures("50%"), concurrency("3"), mandatory(group("", 0))), "0:a,b 1:c,d,e,f", "a=Succeeded@1h b=Succeeded@1h c=TimeOut@1h d=TimeOut@1h e=TimeOut@1h", "f=ToApply"},
		{"maxConcurrency is of the clusters that are not mandatory", progressive(concurrency("50%"), mandatory(group("", 0))), "0:a,b 1:c,d,e,f", "a=Succeeded@1h b=Succeeded@1h", "c=ToApply d=ToApply"},
		{"maxConcurrency beyond the clusters that are not mandatory means no limit", progressive(concurrency("5"), mandatory(group("", 0))), "0:a,b 1:c,d,e,f", "a=Succeeded@1h b=Succeeded@1h", "c=ToApply d=ToApply e=ToApply f=ToApply"},
	})
}

func TestProgressive(t *testing.T) {
	check(t, []row{
		{"clusters start in the order of their names, whatever their groups", progressive(concurrency("3")), "0:d,b 1:c,a", "", "a=ToApply b=ToApply c=ToApply"},
		{"one under way takes a place", progressive(concurrency("2")), "0:a,b,c", "b=Progressing@1m", "b=Progressing a=ToApply"},
		{"one that has yet to take it in takes a place", progressive(concurrency("2")), "0:a,b,c", "b=ToApply", "b=ToApply a=ToApply"},
		{"one that failed takes a place", progressive(concurrency("2"), failures("1")), "0:a,b,c", "b=Failed@1m", "b=Failed a=ToApply"},
		{"one that soaks takes a place", progressive(concurrency("2"), soak("5m")), "0:a,b,c", "b=Succeeded@1m", "b=Succeeded a=ToApply recheck:4m0s"},
		{"one that succeeded takes none", progressive(concurrency("2")), "0:a,b,c", "b=Succeeded@1m", "a=ToApply c=ToApply"},
		{"one that timed out takes none", progressive(concurrency("1"), failures("1"), deadline("1m")), "0:a,b,c", "a=Progressing@1m", "b=ToApply timed-out:a=TimeOut"},
		{"one that timed out is a failure", progressive(concurrency("1"), deadline("1m")), "0:a,b,c", "a=Progressing@1m", "timed-out:a=TimeOut breach"},
		{"one that was given up before is a failure", progressive(concurrency("1")), "0:a,b,c", "a=TimeOut@1m", "breach"},
		{"one that failed counts before its deadline", progressive(concurrency("2"), deadline("1h")), "0:a,b,c", "a=Failed@1m", "a=Failed breach recheck:59m0s"},
		{"failures that never time out keep their places for ever", progressive(concurrency("2"), failures("2")), "0:a,b,c", "a=Failed@99h b=Failed@99h", "a=Failed b=Failed"},
		{"a cluster in two groups starts once", progressive(concurrency("2")), "0:a,b 1:a,c", "", "a=ToApply b=ToApply"},
		{"a full rollout starts nobody", progressive(concurrency("2")), "0:a,b,c", "a=Progressing@1m b=Progressing@1m", "a=Progressing b=Progressing"},
		{"more under way than allowed starts nobody", progressive(concurrency("1")), "0:a,b,c", "a=Progressing@1m b=Progressing@1m", "a=Progressing"},
		{"once it is full, deadlines of later ones are not looked at", progressive(concurrency("1"), deadline("1m"), failures("3")), "0:a,b,c", "a=Progressing@1s b=Progressing@9m", "a=Progressing recheck:59s"},
		{"after a breach those that have yet to take it in are left out, others not", progressive(concurrency("4")), "0:a,b,c,d,e", "a=ToApply b=Failed@1m c=ToApply d=Progressing@1m", "a=ToApply b=Failed d=Progressing breach"},
		{"the order of what is known does not matter", progressive(concurrency("1")), "0:a,b,c", "c=Progressing@1m a=Succeeded@1m b=Progressing@1m", "b=Progressing"},
		{"without settings there is no limit", clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressive}, "0:a,b", "", "a=ToApply b=ToApply"},
	})
}

func TestProgressiveMandatoryGroups(t *testing.T) {
	strategy := func(options ...option) clusterv1alpha1.RolloutStrategy {
		return progressive(append(options, mandatory(group("canary", 0)), concurrency("1"))...)
	}
	three := "0/canary:a,b 1:c,d 2/canary:e"
	check(t, []row{
		{"they come first, all of a group at once", strategy(), three, "", "a=ToApply b=ToApply"},
		{"they go one after the other", strategy(), three, "a=Succeeded@1h b=Progressing@1m", "b=Progressing"},
		{"a name selects all groups of that name", strategy(), three, "a=Succeeded@1h b=Succeeded@1h", "e=ToApply"},
		{"nobody else starts before they are done", strategy(), three, "a=Succeeded@1h b=Succeeded@1h e=Progressing@1m", "e=Progressing"},
		{"the others follow", strategy(), three, "a=Succeeded@1h b=Succeeded@1h e=Succeeded@1h", "c=ToApply"},
		{"they soak", strategy(soak("5m")), three, "a=Succeeded@1h b=Succeeded@1h e=Succeeded@2m", "e=Succeeded recheck:3m0s"},
		{"they tolerate no failure, whatever maxFailures says", strategy(failures("5")), three, "a=Succeeded@1h b=Failed@1m", "b=Failed breach"},
		{"one that timed out blocks for good", strategy(failures("5"), deadline("1m")), three, "a=Succeeded@1h b=Progressing@1h", "timed-out:b=TimeOut breach"},
		{"others that timed out block the rest, too", strategy(failures("5"), deadline("1m")), three, "a=Succeeded@1h b=Succeeded@1h e=Succeeded@1h c=Progressing@1h", "timed-out:c=TimeOut"},
		{"others under way show beside them", strategy(), three, "c=Progressing@1m", "c=Progressing a=ToApply b=ToApply"},
		{"others under way hold up all but the first of them", strategy(), three, "a=Succeeded@1h b=Succeeded@1h c=Progressing@1m", "c=Progressing"},
		{"an index selects one group", progressive(mandatory(group("", 1))), "0:a 1:b 2:c", "", "b=ToApply"},
		{"the name goes before the index", progressive(mandatory(group("last", 1))), "0:a 1:b 2/last:c", "", "c=ToApply"},
		{"neither is the group 0", progressive(mandatory(group("", 0))), "0:a 1:b 2:c", "", "a=ToApply"},
		{"they go by index, in whatever order they are named", progressive(mandatory(group("", 2), group("", 1))), "0:a 1:b 2:c", "", "b=ToApply"},
		{"groups that are not there are not an obstacle", progressive(mandatory(group("gone", 0), group("", 7))), "0:a 1:b", "", "a=ToApply b=ToApply"},
		{"empty groups are not an obstacle", progressive(mandatory(group("", 0))), "0: 1:b", "", "b=ToApply"},
	})
}

func TestProgressivePerGroup(t *testing.T) {
	two := "0:a,b 1:c,d 2:e"
	check(t, []row{
		{"the first group starts, all of it", perGroup(), two, "", "a=ToApply b=ToApply"},
		{"groups go by index, in whatever order they are given", perGroup(), "10:z 2:c 1:b 0:a 3:d 4:e 5:f 6:g 7:h 8:i 9:j", "a=Succeeded@1h b=Succeeded@1h", "c=ToApply"},
		{"slices of one group are one group", perGroup(), "0:a 1:c 0:b", "", "a=ToApply b=ToApply"},
		{"progress holds up the next group", perGroup(), two, "a=Succeeded@1h b=Progressing@1m", "b=Progressing"},
		{"those that have yet to take it in hold it up", perGroup(), two, "a=Succeeded@1h b=ToApply", "b=ToApply"},
		{"those that soak hold it up", perGroup(soak("5m")), two, "a=Succeeded@1h b=Succeeded@1m", "b=Succeeded recheck:4m0s"},
		{"the next group follows once all is done", perGroup(), two, "a=Succeeded@1h b=Succeeded@1h", "c=ToApply d=ToApply"},
		{"too many failures of a group stop it", perGroup(), two, "a=Succeeded@1h b=Failed@1m", "b=Failed breach"},
		{"failures within maxFailures do not hold up the next group", perGroup(failures("1")), two, "a=Succeeded@1h b=Failed@1m", "b=Failed c=ToApply d=ToApply"},
		{"a failure beside progress waits for the progress", perGroup(failures("1")), two, "a=Progressing@1m b=Failed@1m", "a=Progressing b=Failed"},
		{"maxFailures is of each group", perGroup(failures("50%")), two, "a=TimeOut@1m b=Succeeded@1h c=Failed@1m d=Succeeded@1h", "c=Failed e=ToApply"},
		{"the percentage is rounded up in each group", perGroup(failures("10%")), two, "a=Succeeded@1h b=Succeeded@1h c=TimeOut@1m d=Succeeded@1h", "e=ToApply"},
		{"one more than the percentage stops it", perGroup(failures("10%")), two, "a=TimeOut@1m b=Succeeded@1h c=TimeOut@1m d=TimeOut@1m", "breach"},
		{"maxFailures beyond a group's clusters becomes 0 for that group", perGroup(failures("2")), two, "a=TimeOut@1m b=Succeeded@1h c=Succeeded@1h d=Succeeded@1h e=TimeOut@1m", "breach"},
		{"a failure of a later group holds up all groups after the first until it times out", perGroup(failures("1")), two, "a=Failed@1m b=Succeeded@1h c=Failed@1m d=Succeeded@1h", "a=Failed c=Failed"},
		{"timed-out clusters let an unfinished group be overtaken", perGroup(failures("2"), deadline("10m")), "0:a,b,c 1:d", "a=Succeeded@1h b=Progressing@1h c=Progressing@1m", "c=Progressing d=ToApply timed-out:b=TimeOut recheck:9m0s"},
		{"failures of earlier groups are subtracted later, too", perGroup(failures("2")), two, "a=TimeOut@1m b=TimeOut@1m c=Failed@1m d=Progressing@1m", "c=Failed d=Progressing e=ToApply"},
		{"the clusters of a group go by name", perGroup(), "0:b,a", "", "a=ToApply b=ToApply"},
		{"a cluster that is named twice counts once", perGroup(failures("1")), "0:a,a 1:b", "a=Failed@1m", "a=Failed b=ToApply"},
		{"a group that is reached late gets what it missed", perGroup(), two, "a=Succeeded@1h b=Succeeded@1h c=ToApply", "c=ToApply d=ToApply"},
		{"those beyond the group whose turn it is do not start over", perGroup(), two, "c=ToApply d=ToApply", "a=ToApply b=ToApply"},
		{"mandatory groups come first", perGroup(mandatory(group("", 2))), two, "", "e=ToApply"},
		{"mandatory groups tolerate no failure", perGroup(mandatory(group("", 2)), failures("1")), two, "e=Failed@1m", "e=Failed breach"},
		{"a mandatory cluster that timed out blocks for good", perGroup(mandatory(group("", 2)), failures("1"), deadline("1m")), two, "e=Failed@1h", "timed-out:e=TimeOut breach"},
		{"the others follow the mandatory ones", perGroup(mandatory(group("", 2))), two, "e=Succeeded@1h", "a=ToApply b=ToApply"},
		{"no settings are the strictest", clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressivePerGroup}, two, "a=Failed@1m b=Succeeded@1m", "a=Failed breach"},
	})
}

func TestGapsInTheGroups(t *testing.T) {
	check(t, []row{
		{"a group beyond a gap gets nothing", perGroup(), "0:a 2:c", "a=Succeeded@1h", ""},
		{"neither does it with the other strategies", all("None"), "0:a 2:c", "", "a=ToApply"},
		{"a cluster beyond a gap is not removed", all("None"), "0:a 2:c", "a=Succeeded@1h c=Succeeded@1h", ""},
		{"it does not count among all clusters", progressive(failures("50%"), concurrency("1")), "0:a,b,c,d 7:x,y", "a=TimeOut@1m b=TimeOut@1m c=TimeOut@1m", "breach"},
		{"a mandatory group may be beyond a gap", progressive(mandatory(group("", 2))), "0:a 2:c", "", "c=ToApply"},
		{"a negative index is not a group's", all("None"), "-1:z 0:a", "", "a=ToApply"},
	})
}

func TestBadStrategies(t *testing.T) {
	for name, x := range map[string]struct {
		strategy clusterv1alpha1.RolloutStrategy
		want     string
	}{
		"no type":                           {clusterv1alpha1.RolloutStrategy{}, `incorrect rollout strategy type ""`},
		"another type":                      {clusterv1alpha1.RolloutStrategy{Type: "Canary"}, `incorrect rollout strategy type "Canary"`},
		"a deadline that is not a duration": {all("soon"), `progressDeadline "soon"`},
		"a deadline without a unit":         {progressive(deadline("10")), `progressDeadline "10"`},
		"a negative deadline":               {perGroup(deadline("-5m")), `progressDeadline "-5m" of the rollout strategy: it is negative`},
		"minSuccessTime without a unit":     {progressive(soak("10")), `minSuccessTime "10"`},
		"maxFailures as a word":             {perGroup(failures("few")), `maxFailures "few"`},
		"maxFailures as an odd percentage":  {progressive(failures("x%")), `maxFailures "x%"`},
		"a percentage of no number":         {progressive(failures("NaN%")), `maxFailures "NaN%"`},
		"maxConcurrency as a word":          {progressive(concurrency("many")), `maxConcurrency "many"`},
		"maxConcurrency as text":            {clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressive, Progressive: &clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.FromString("3")}}, `maxConcurrency "3"`},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := rollout.Decide(x.strategy, groups(t, "0:a"), nil, noon)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("error %v, want one with %s", err, x.want)
			}
			if !reflect.DeepEqual(result, rollout.Result{}) {
				t.Errorf("a result in spite of the error: %+v", result)
			}
			if err := rollout.Validate(x.strategy); err == nil {
				t.Error("the strategy is valid")
			}
		})
	}
	if err := rollout.Validate(progressive(concurrency("10%"), failures("3"), soak("5m"), deadline("1h"))); err != nil {
		t.Errorf("a good strategy: %v", err)
	}
}

func TestInputsStayAsTheyAre(t *testing.T) {
	g, s := groups(t, "1:d,c 0:b,a"), statuses(t, "d=Progressing@1h b=Succeeded@1m")
	if _, err := rollout.Decide(progressive(deadline("1m"), soak("5m")), g, s, noon); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, groups(t, "1:d,c 0:b,a")) || !reflect.DeepEqual(s, statuses(t, "d=Progressing@1h b=Succeeded@1m")) {
		t.Errorf("they became %v and %v", g, s)
	}
}

// A result may be given back as what is known: the times of an earlier decision
// do not matter.
func TestResultsCanBeGivenBack(t *testing.T) {
	s := statuses(t, "a=ToApply b=Progressing@1m")
	for i := range s {
		s[i].RecheckAt = noon.Add(time.Second)
	}
	got, err := rollout.Decide(progressive(deadline("5m")), groups(t, "0:a,b"), s, noon)
	if text, want := render(got), "a=ToApply b=Progressing recheck:4m0s"; err != nil || text != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}

package rollout

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // windows name time zones, and a plan may run where the system has none

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// EveryGroup is the group of a gate that stands before every group but the first.
const EveryGroup = "*"

// Gate holds a rollout back before a decision group: nothing is handed out to the clusters
// of the group, and of those after it, until somebody approves, or a window of time opens.
// Gates are muster's own; a strategy means the same with and without them.
type Gate struct {
	// Group is the name of the decision group, its index when it has no name, or
	// EveryGroup.
	Group string `json:"group"`
	// Window is when the gate is open; nil is one that somebody has to approve.
	Window *Window `json:"window,omitempty"`
}

// Window is a time of day on some days of the week.
type Window struct {
	// Days are Mon, Tue, Wed, Thu, Fri, Sat and Sun; none is every day. A window that ends
	// on the next day belongs to the day on which it begins.
	Days []string `json:"days,omitempty"`
	// From and To are times as in 22:00. When To is not after From, it is on the next day.
	From string `json:"from"`
	To   string `json:"to"`
	// TimeZone is a name of the IANA database, as Europe/Berlin; UTC when it is empty.
	TimeZone string `json:"timeZone,omitempty"`
}

// Approval says who has approved a group, and for which content.
type Approval struct {
	Group string `json:"group"`
	// Content is the digest of what is rolled out. Other content needs another approval.
	Content string    `json:"content"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
}

// Limits of what the annotations may hold. Each group of a rollout may need an approval of
// its own, so there is room for many.
const (
	maxGates     = 20
	maxApprovals = 200
	// maxSaid is how many approvals a message names.
	maxSaid = 10
)

// Gated is what holds a rollout back.
type Gated struct {
	Gates     []Gate
	Approvals []Approval
	Paused    bool
}

// ReadGates reads the annotations of a replica set or an add-on
// (muster.RolloutGatesAnnotation and its siblings). Its error names the annotation and what
// is wrong with it.
func ReadGates(annotations map[string]string) (Gated, error) {
	var g Gated
	if value := annotations[muster.RolloutGatesAnnotation]; value != "" {
		if err := readJSON(value, &g.Gates); err != nil {
			return g, fmt.Errorf("the annotation %s is %q, which is no list of gates: %w: write it as in %s",
				muster.RolloutGatesAnnotation, value, err, `[{"group":"production"}]`)
		}
	}
	if len(g.Gates) > maxGates {
		return g, fmt.Errorf(
			"the annotation %s has %d gates: give %d at most",
			muster.RolloutGatesAnnotation,
			len(g.Gates),
			maxGates,
		)
	}
	seen := map[string]bool{}
	for i, gate := range g.Gates {
		err := gate.validate()
		if err == nil && seen[gate.Group] {
			err = errors.New("another gate is before the same group: leave one of them out")
		}
		if err != nil {
			return g, fmt.Errorf(
				"the annotation %s: gate %d, group %q: %w",
				muster.RolloutGatesAnnotation,
				i,
				gate.Group,
				err,
			)
		}
		seen[gate.Group] = true
	}
	switch value := annotations[muster.RolloutPausedAnnotation]; value {
	case "", "false":
	case "true":
		g.Paused = true
	default:
		return g, fmt.Errorf("the annotation %s is %q: write true or false", muster.RolloutPausedAnnotation, value)
	}
	if value := annotations[muster.RolloutApprovalsAnnotation]; value != "" {
		if err := readJSON(value, &g.Approvals); err != nil {
			return g, fmt.Errorf("the annotation %s, which the hub writes, is %q: %w: remove it, and approve again",
				muster.RolloutApprovalsAnnotation, value, err)
		}
	}
	return g, nil
}

// readJSON reads one value without fields that nobody knows: a typo must not open a gate.
func readJSON(value string, into any) error {
	d := json.NewDecoder(bytes.NewReader([]byte(value)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is more than one value")
	}
	return nil
}

// Approve adds an approval, and returns the annotation. The oldest ones make room.
func (g Gated) Approve(a Approval) string {
	kept := slices.DeleteFunc(slices.Clone(g.Approvals), func(x Approval) bool {
		return x.Group == a.Group && x.Content == a.Content
	})
	kept = append(kept, a)
	encoded, _ := json.Marshal(kept[max(0, len(kept)-maxApprovals):]) // texts and times
	return string(encoded)
}

// Has reports whether a group has a gate that is to be approved.
func (g Gated) Has(group string) bool {
	return slices.ContainsFunc(g.Gates, func(x Gate) bool {
		return x.Window == nil && (x.Group == group || x.Group == EveryGroup)
	})
}

// Hold is why a rollout does not go on.
type Hold struct {
	// Group is the first group that is held back; "" when the whole rollout is paused.
	Group string
	// Window is the window that the group waits for; nil is an approval.
	Window *Window
	// Opens is when the window opens.
	Opens time.Time
	// Clusters is how many would get the content now.
	Clusters int
}

// Message says it. object is what the command line calls the object: shop/web is the replica
// set web in the namespace shop, and metrics the add-on metrics.
func (h *Hold) Message(object string) string {
	n := "1 cluster waits"
	if h.Clusters != 1 {
		n = fmt.Sprintf("%d clusters wait", h.Clusters)
	}
	switch {
	case h.Group == "":
		return n + " as the rollout is paused (muster rollout pause --undo " + object + ")"
	case h.Window != nil:
		return fmt.Sprintf("%s for the window before the group %s, which opens at %s", n, h.Group,
			h.Opens.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s for an approval of the group %s (muster rollout approve %s %s)", n, h.Group, object, h.Group)
}

// approvedText begins what Approved says.
const approvedText = "approved: "

// Approved says who has approved which groups for a content, the newest first; "" when
// nobody has.
func (g Gated) Approved(content string) string {
	var who []string
	for _, a := range slices.Backward(g.Approvals) {
		if a.Content == content {
			who = append(who, fmt.Sprintf("%s by %s at %s", a.Group, a.By, a.At.UTC().Format(time.RFC3339)))
		}
	}
	if len(who) == 0 {
		return ""
	}
	return approvedText + text.List(who, maxSaid)
}

// NewlyApproved is the part of a message that Approved has made, when it says more than the
// same part of the message before; "" otherwise.
func NewlyApproved(message, before string) string {
	part := func(of string) string {
		if at := strings.Index(of, approvedText); at >= 0 {
			return of[at:]
		}
		return ""
	}
	if part(message) == part(before) {
		return ""
	}
	return part(message)
}

// Reason is the reason of the condition muster.ConditionGatesOpen.
func (h *Hold) Reason() string {
	switch {
	case h == nil:
		return muster.ReasonNothingHeldBack
	case h.Group == "":
		return muster.ReasonPaused
	case h.Window != nil:
		return muster.ReasonWaitingForWindow
	}
	return muster.ReasonAwaitingApproval
}

// Hold takes from a result the clusters behind a gate that is closed for a content at a
// time, and says what they wait for; nil when none does. has says which clusters have the
// content already: they keep it. The result is looked at again when a window opens or ends.
func (g Gated) Hold(
	result *Result,
	groups []Group,
	content string,
	has func(cluster string) bool,
	now time.Time,
) *Hold {
	if len(g.Gates) == 0 && !g.Paused {
		return nil
	}
	closed := map[string]bool{}
	var hold *Hold
	if g.Paused {
		hold = &Hold{}
	}
	ordered := slices.SortedStableFunc(
		slices.Values(groups),
		func(a, b Group) int { return cmp.Compare(a.Index, b.Index) },
	)
	for i, group := range ordered {
		if hold == nil {
			var change time.Time
			hold, change = g.before(group, i == 0, content, now)
			if wait := change.Sub(now); !change.IsZero() && (result.RecheckAfter == 0 || wait < result.RecheckAfter) {
				result.RecheckAfter = wait
			}
		}
		for _, c := range group.Clusters {
			closed[c] = hold != nil
		}
	}
	result.ToRollout = slices.DeleteFunc(result.ToRollout, func(s ClusterStatus) bool {
		held := s.Status == ToApply && closed[s.Cluster] && !has(s.Cluster)
		if held {
			hold.Clusters++
		}
		return held
	})
	if hold == nil || hold.Clusters == 0 {
		return nil
	}
	return hold
}

// before is what holds back a group: nil when nothing does. change is when a window
// before it opens or ends; zero is never.
func (g Gated) before(group Group, first bool, content string, now time.Time) (hold *Hold, change time.Time) {
	name := cmp.Or(group.Name, strconv.Itoa(int(group.Index)))
	for _, gate := range g.Gates {
		if gate.Group != name && (gate.Group != EveryGroup || first) {
			continue
		}
		if gate.Window == nil {
			if !slices.ContainsFunc(g.Approvals, func(a Approval) bool {
				return a.Content == content && (a.Group == name || a.Group == EveryGroup)
			}) {
				return &Hold{Group: name}, time.Time{}
			}
			continue
		}
		open, until := gate.Window.at(now)
		if !open {
			return &Hold{Group: name, Window: gate.Window, Opens: until}, until
		}
		if change.IsZero() || until.Before(change) {
			change = until
		}
	}
	return nil, change
}

// days are the days of the week as windows name them.
var days = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

const clockTime = "15:04"

func (g Gate) validate() error {
	if strings.TrimSpace(g.Group) == "" {
		return errors.New(
			"group is missing: name a decision group of the placement, or * for every group but the first",
		)
	}
	w := g.Window
	if w == nil {
		return nil
	}
	for _, d := range w.Days {
		if !slices.Contains(days, d) {
			return fmt.Errorf("window.days has %q: use Mon, Tue, Wed, Thu, Fri, Sat and Sun", d)
		}
	}
	for _, t := range []struct{ name, value string }{{"from", w.From}, {"to", w.To}} {
		if _, err := time.Parse(clockTime, t.value); err != nil {
			return fmt.Errorf("window.%s is %q: write a time as in 22:00", t.name, t.value)
		}
	}
	if _, err := time.LoadLocation(w.TimeZone); err != nil || w.TimeZone == "Local" {
		return fmt.Errorf(
			"window.timeZone is %q, which is no name of a time zone: write it as in Europe/Berlin, or leave "+
				"it out for UTC",
			w.TimeZone,
		)
	}
	return nil
}

// at reports whether the window is open, and when that changes next.
func (w *Window) at(now time.Time) (open bool, change time.Time) {
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil { // validate has
		zone = time.UTC
	}
	local := now.In(zone)
	from, _ := time.Parse(clockTime, w.From)
	to, _ := time.Parse(clockTime, w.To)
	for day := -1; day <= 7; day++ {
		on := func(t time.Time, later int) time.Time {
			return time.Date(local.Year(), local.Month(), local.Day()+day+later, t.Hour(), t.Minute(), 0, 0, zone)
		}
		begins, ends := on(from, 0), on(to, 0)
		if !to.After(from) {
			ends = on(to, 1)
		}
		switch {
		case len(w.Days) > 0 && !slices.Contains(w.Days, days[begins.Weekday()]), !now.Before(ends):
		case now.Before(begins):
			return false, begins
		default:
			return true, ends
		}
	}
	return false, now.AddDate(0, 0, 7) // not reached: each window comes within eight days
}

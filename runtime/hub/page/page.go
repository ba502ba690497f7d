// Package page serves a hub's web page: the fleet at a glance, lists to filter and search,
// and a page of each object with the explanation of its state. Nothing can be changed by
// it, and who reads it sees what the API would show them, no more.
//
// It is HTML that the hub renders, with one style sheet and without scripts: there is
// nothing for an attacker to inject into, and it works in any browser.
package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain/facts"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

const (
	// Path is where the page is, and all that belongs to it.
	Path = "/ui/"

	// timeout is how long an answer may take, the wait for its turn included.
	timeout = 10 * time.Second
	// answers is how many are worked out at a time. Each looks at the whole fleet.
	answers = 4
	// perPage is how many rows of a list are on a page.
	perPage = 100
	// maxTrouble is how many objects the first page names.
	maxTrouble = 15
	// maxSets is how many cluster sets the first page shows.
	maxSets = 50
	// refreshEvery is how often a page is loaded again when the reader wants it.
	refreshEvery = 30
)

// Authorizer lets everybody reach the page, which asks for rights by itself.
func Authorizer() extension.Authorizer {
	return extension.Authorizer{Name: "WebPage", Authorizer: authorizer.AuthorizerFunc(
		func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if !a.IsResourceRequest() && strings.HasPrefix(a.GetPath(), Path) {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		})}
}

// Options say what the page is made of.
type Options struct {
	// Cached reads what the controllers have in memory, and asks for the rights of others.
	Cached client.Client
	// Stored reads from the store.
	Stored client.Reader
	// Clock is the hub's.
	Clock clock.PassiveClock
	// Features says which kinds the hub has.
	Features featuregate.FeatureGate
	// Scheduling is how the hub decides placements.
	Scheduling scheduling.Options
	// Version is the hub's.
	Version string
}

// Handler serves the page to requests in whose context Kubernetes' authentication has put
// the user. It is safe for concurrent use.
type Handler struct {
	options Options
	kinds   []kind
	mux     *http.ServeMux
	// turns are held by the answers that are being worked out, explaining by the one that
	// explains a placement: its author decides what that costs.
	turns, explaining chan struct{}
}

// NewHandler makes the handler.
func NewHandler(o Options) *Handler {
	h := &Handler{options: o, kinds: kindsOf(o.Features), mux: http.NewServeMux(), turns: make(chan struct{}, answers),
		explaining: make(chan struct{}, 1)}
	h.mux.HandleFunc(Path+"{$}", h.answer(h.turns, h.overview))
	for _, k := range h.kinds {
		h.mux.HandleFunc(Path+k.path, h.answer(h.turns, func(a *asked) (view, error) { return h.list(a, k) }))
		one := Path + k.path + "/{name}"
		if k.in != "" {
			one = Path + k.path + "/{namespace}/{name}"
		}
		turns := h.turns
		if k.costly {
			turns = h.explaining
		}
		h.mux.HandleFunc(one, h.answer(turns, func(a *asked) (view, error) { return h.object(a, k) }))
	}
	h.mux.HandleFunc(Path, h.answer(h.turns, func(*asked) (view, error) { return view{}, errNoPage }))
	return h
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// asked is a request of a user.
type asked struct {
	*http.Request
	read *reader
	now  time.Time
}

var (
	errNoPage = errors.New("there is no such page")
	errBusy   = errors.New("the hub is busy with other pages: try again in some seconds")
)

// problem is a request that can't be answered as it is.
type problem string

func (p problem) Error() string { return string(p) }

// answer makes a handler of what makes a view, when it has one of the turns.
func (h *Handler) answer(turns chan struct{}, make func(*asked) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, ok := request.UserFrom(r.Context())
		switch {
		case !ok || who.GetName() == user.Anonymous:
			w.WriteHeader(http.StatusUnauthorized) // the login takes its place
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			methodNotAllowed(w, "GET, HEAD")
			return
		}
		ctx, end := context.WithTimeout(r.Context(), timeout)
		defer end()
		v, status := view{}, http.StatusOK
		err := turn(ctx, turns, func() (err error) {
			a := &asked{Request: r.WithContext(ctx), now: h.options.Clock.Now(), read: &reader{cached: h.options.Cached,
				stored: h.options.Stored, who: who, known: map[authorizationv1.ResourceAttributes]error{}}}
			v, err = make(a)
			return err
		})
		if err != nil {
			v, status = failed(ctx, err)
		}
		h.complete(&v, r, who)
		render(w, status, cmp.Or(v.template, "object"), v)
	}
}

// turn waits for a turn and does something then.
func turn(ctx context.Context, turns chan struct{}, do func() error) error {
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
		return do()
	case <-ctx.Done():
		return errBusy
	}
}

// failed is what is shown in the place of a page.
func failed(ctx context.Context, err error) (view, int) {
	var wrong problem
	v := view{template: "failed", Title: "This can't be shown", Said: err.Error() + "."}
	switch {
	case errors.Is(err, errNoPage):
		v.Title, v.Said = "There is no such page", "Choose one of those above."
		return v, http.StatusNotFound
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		v.Title, v.Said = "It is not there", "There is no such object on the hub. It may have been deleted."
		return v, http.StatusNotFound
	case apierrors.IsForbidden(err):
		v.Title = "You may not see this"
		return v, http.StatusForbidden
	case errors.As(err, &wrong):
		return v, http.StatusBadRequest
	case errors.Is(err, errBusy), ctx.Err() != nil:
		v.Said = "The hub is busy, or has just started. Try again in some seconds."
		return v, http.StatusServiceUnavailable
	}
	return v, http.StatusInternalServerError
}

// complete adds to a view what every page has.
func (h *Handler) complete(v *view, r *http.Request, who user.Info) {
	v.User, v.Version, v.Now = who.GetName(), h.options.Version, h.options.Clock.Now().UTC().Format(time.RFC3339)
	v.Navigation = append(v.Navigation, link{"Overview", Path, r.URL.Path == Path})
	for _, k := range h.kinds {
		v.Navigation = append(v.Navigation, link{k.title, Path + k.path,
			r.URL.Path == Path+k.path || strings.HasPrefix(r.URL.Path, Path+k.path+"/")})
	}
	query := r.URL.Query()
	if query.Get("refresh") != "" {
		v.RefreshEvery = refreshEvery
		query.Del("refresh")
	} else {
		query.Set("refresh", "yes")
	}
	v.RefreshPath = (&url.URL{Path: r.URL.Path, RawQuery: query.Encode()}).String()
}

// worstFirst sorts what is in trouble to the front, and then by name.
func worstFirst(rows []row) {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(b.level.Rank()-a.level.Rank(), strings.Compare(a.key.Namespace, b.key.Namespace),
			strings.Compare(a.key.Name, b.key.Name))
	})
}

// overview is the first page: how many objects of each kind are in which state, the cluster
// sets, and what is in trouble.
func (h *Handler) overview(a *asked) (view, error) {
	v := view{template: "overview", Title: "The fleet"}
	counts := table{Title: "At a glance", Columns: []string{"", "All", "OK", "Waiting", "Warning", "Problem"}}
	type found struct {
		row
		kind kind
	}
	var worst []found
	var clusters []row
	for _, k := range h.kinds {
		rows, err := k.list(a.Context(), a.read, "", a.now)
		if apierrors.IsForbidden(err) {
			v.Hidden = append(v.Hidden, fmt.Sprintf("you may not list %s in all namespaces", strings.ToLower(k.title)))
			continue
		}
		if err != nil {
			return v, err
		}
		if k.path == "clusters" {
			clusters = rows
		}
		n := map[explain.Level]int{}
		for i := range rows {
			n[rows[i].level]++
		}
		line := []cell{{Text: k.title, Path: Path + k.path}, {Text: strconv.Itoa(len(rows))}}
		for _, level := range []explain.Level{explain.OK, explain.Waiting, explain.Warning, explain.Problem} {
			c := cell{Text: strconv.Itoa(n[level])}
			if n[level] > 0 {
				c.Path, c.Level = listPath(k.path, "level", string(level)), level
			}
			line = append(line, c)
		}
		counts.Rows = append(counts.Rows, line)
		worstFirst(rows)
		for _, o := range rows[:min(len(rows), maxTrouble)] {
			if o.level.Rank() >= explain.Warning.Rank() {
				worst = append(worst, found{o, k})
			}
		}
	}
	slices.SortStableFunc(worst, func(a, b found) int { return b.level.Rank() - a.level.Rank() })
	attention := table{Title: "What needs attention", Columns: []string{"What", "Name", "State"},
		Empty: "Nothing that you may see is in trouble."}
	for _, x := range worst[:min(len(worst), maxTrouble)] {
		attention.Rows = append(attention.Rows, []cell{{Text: x.kind.noun},
			{
				Text: strings.TrimPrefix(x.key.String(), "/"),
				Path: pathOf(x.kind.path, x.key),
			}, {Text: x.state, Level: x.level}})
	}
	v.Tables = []table{counts, attention}
	sets, err := setsOf(a, clusters)
	if err != nil && !apierrors.IsForbidden(err) {
		return v, err
	}
	if len(sets.Rows) > 0 {
		v.Tables = append(v.Tables, sets)
	}
	return v, nil
}

// setsOf are the cluster sets, with how many of the clusters in them are available; none
// for who sees no clusters.
func setsOf(a *asked, clusters []row) (table, error) {
	t := table{Title: "Cluster sets", Columns: []string{"Set", "Available"}}
	if clusters == nil {
		return t, nil
	}
	list := &clusterv1beta2.ManagedClusterSetList{}
	if err := a.read.List(a.Context(), list); err != nil {
		return t, err
	}
	slices.SortFunc(
		list.Items,
		func(x, y clusterv1beta2.ManagedClusterSet) int { return strings.Compare(x.Name, y.Name) },
	)
	t.Left = max(len(list.Items)-maxSets, 0)
	for i := range list.Items[:len(list.Items)-t.Left] {
		selector, err := membership.Selector(&list.Items[i])
		if err != nil {
			continue // its placements say so
		}
		all, available := 0, 0
		for j := range clusters {
			if selector.Matches(clusters[j].labels) {
				all++
				if clusters[j].level == explain.OK {
					available++
				}
			}
		}
		name := list.Items[i].Name
		t.Rows = append(t.Rows, []cell{{Text: name, Path: listPath("clusters", "set", name)},
			{Text: fmt.Sprintf("%d of %d", available, all), Part: available, Whole: all}})
	}
	return t, nil
}

// list is the list of a kind.
func (h *Handler) list(a *asked, k kind) (view, error) {
	query := a.URL.Query()
	v := view{template: "list", Title: k.title, Filters: filtersOf(k, query)}
	keep, err := h.filter(a, k, query)
	if err != nil {
		return v, err
	}
	number := 1
	if p := query.Get("page"); p != "" {
		if number, err = strconv.Atoi(p); err != nil || number < 1 {
			return v, problem(fmt.Sprintf("%q is no number of a page: use 1 or more", p))
		}
	}
	rows, err := k.list(a.Context(), a.read, query.Get("namespace"), a.now)
	if apierrors.IsForbidden(err) {
		where := "in all namespaces: fill in one in which you may"
		if in := query.Get("namespace"); in != "" {
			where = "in " + in
		} else if k.in == "" {
			where = "of this hub"
		}
		v.Hidden = append(v.Hidden, fmt.Sprintf("you may not list %s %s", strings.ToLower(k.title), where))
		return v, nil
	}
	if err != nil {
		return v, err
	}
	all := len(rows)
	rows = slices.DeleteFunc(rows, func(o row) bool { return !keep(&o) })
	worstFirst(rows)
	v.Said = fmt.Sprintf("%d of %d, what is in trouble first.", len(rows), all)
	first := min((number-1)*perPage, len(rows))
	last := min(first+perPage, len(rows))
	if len(rows) > perPage {
		v.Said = fmt.Sprintf("%d to %d of %d that match, of %d, what is in trouble first.", min(first+1, last), last,
			len(rows), all)
	}
	t := table{Columns: append(append([]string{"Name"}, k.columns...), "State"), Empty: "Nothing matches."}
	if all == 0 {
		t.Empty = "There are none."
	}
	if k.in != "" {
		t.Columns = append([]string{k.in}, t.Columns...)
	}
	for _, o := range rows[first:last] {
		var line []cell
		switch k.in {
		case "":
		case "Cluster":
			line = append(line, clusterCell(o.key.Namespace))
		default:
			line = texts(o.key.Namespace)
		}
		line = append(line, cell{Text: o.key.Name, Path: pathOf(k.path, o.key)})
		if o.cells != nil {
			line = append(line, o.cells()...)
		}
		t.Rows = append(t.Rows, append(line, cell{Text: o.state, Level: o.level}))
	}
	v.Tables = []table{t}
	step := func(to int) string {
		query.Set("page", strconv.Itoa(to))
		return Path + k.path + "?" + query.Encode()
	}
	if number > 1 && len(rows) > 0 {
		v.Previous = step(min(number-1, (len(rows)+perPage-1)/perPage))
	}
	if last < len(rows) {
		v.Next = step(number + 1)
	}
	return v, nil
}

// filtersOf are the fields of a list's filter.
func filtersOf(k kind, query url.Values) []field {
	levels := []string{""}
	for _, l := range []explain.Level{explain.Problem, explain.Warning, explain.Waiting, explain.OK} {
		levels = append(levels, string(l))
	}
	out := []field{
		{Name: "q", Label: "Name or state", Value: query.Get("q")},
		{Name: "level", Label: "Level", Value: query.Get("level"), Choices: levels},
	}
	if k.in != "" {
		out = append(out, field{Name: "namespace", Label: k.in, Value: query.Get("namespace")})
	}
	if k.path == "clusters" {
		out = append(out, field{Name: "set", Label: "Set", Value: query.Get("set")})
	}
	return append(out, field{Name: "labels", Label: "Labels", Value: query.Get("labels"), Hint: "env=prod,tier!=test"})
}

// filter is which rows of a list match a query.
func (h *Handler) filter(a *asked, k kind, query url.Values) (func(*row) bool, error) {
	text, level := strings.ToLower(query.Get("q")), explain.Level(query.Get("level"))
	if level != "" && level.Rank() < 0 {
		return nil, problem(fmt.Sprintf("%q is no level: choose ok, waiting, warning or problem", level))
	}
	selector, err := labels.Parse(query.Get("labels"))
	if err != nil {
		return nil, problem(fmt.Sprintf("%q does not select labels: %v: write it as in env=prod,tier!=test",
			query.Get("labels"), err))
	}
	members := labels.Everything()
	if set := query.Get("set"); set != "" && k.path == "clusters" {
		found := &clusterv1beta2.ManagedClusterSet{}
		if err := a.read.Get(a.Context(), types.NamespacedName{Name: set}, found); err != nil {
			return nil, fmt.Errorf("read the cluster set %s: %w", set, err)
		}
		if members, err = membership.Selector(found); err != nil {
			return nil, problem(err.Error())
		}
	}
	return func(o *row) bool {
		return (level == "" || o.level == level) && (text == "" || o.matches(text)) &&
			selector.Matches(o.labels) && members.Matches(o.labels)
	}, nil
}

// object is the page of one object.
func (h *Handler) object(a *asked, k kind) (view, error) {
	key := types.NamespacedName{Namespace: a.PathValue("namespace"), Name: a.PathValue("name")}
	v := view{Title: strings.TrimPrefix(key.String(), "/"), Kind: k.noun}
	f := facts.NewReader(a.Context(), a.read)
	f.Scheduling = h.options.Scheduling
	e, err := k.explain(f, key)
	if err != nil {
		return v, err
	}
	v.Explanation = &e
	s := &sections{read: a.read, now: a.now, kinds: h.kinds}
	if err := k.sections(s, a.Context(), key); err != nil {
		return v, err
	}
	v.Tables, v.Hidden = s.tables, slices.Concat(f.Hidden, s.hidden)
	slices.Sort(v.Hidden)
	v.Hidden = slices.Compact(v.Hidden)
	return v, nil
}

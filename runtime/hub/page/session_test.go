package page

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// browser is one that keeps cookies, at a hub that knows the token "good" and nobody else.
type browser struct {
	testing.TB
	clock   *clocktesting.FakePassiveClock
	front   *Front
	cookies map[string]string
	// reached are the paths that the hub behind the front was asked for, with the token.
	reached []string
}

func newBrowser(t testing.TB, o *OIDC) *browser {
	b := &browser{TB: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)),
		cookies: map[string]string{}}
	b.front = NewFront(b.clock, o)
	testkit.Must(t, b.front.UseKey([]byte("0123456789abcdef0123456789abcdef")))
	return b
}

// ask asks the hub, and keeps the cookies that it sets.
func (b *browser) ask(method, target string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	b.Helper()
	r := httptest.NewRequest(method, "https://hub.example.com"+target, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	b.front.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" && strings.HasPrefix(r.URL.Path, Path) {
			b.Errorf("%s: the cookies are passed on", r.URL.Path)
		}
		bearer := r.Header.Get("Authorization")
		b.reached = append(b.reached, r.URL.Path+" "+bearer)
		if bearer != "Bearer good" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write([]byte("behind"))
	})).ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		b.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
		if c.Path != Path || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode {
			b.Errorf("the cookie is %+v", c)
		}
	}
	return w
}

// answers fails unless an answer has a status, and its text or where it leads to.
func (b *browser) answers(w *httptest.ResponseRecorder, status int, want string) {
	b.Helper()
	if w.Code != status || !strings.Contains(w.Body.String()+" "+w.Header().Get("Location"), want) {
		b.Errorf("%d %q, want %d %q:\n%s", w.Code, w.Header().Get("Location"), status, want, w.Body)
	}
	if w.Header().Get("Content-Security-Policy") == "" && w.Code != http.StatusTeapot {
		b.Error("there is no content security policy")
	}
}

func TestALoginLastsForHours(t *testing.T) {
	b := newBrowser(t, nil)
	b.answers(b.ask("GET", "/ui/clusters?q=a", nil), 401, `value="/ui/clusters?q=a"`)
	b.answers(
		b.ask("POST", "/ui/login", url.Values{"token": {" good\n"}, "next": {"/ui/clusters?q=a"}}),
		303,
		"/ui/clusters?q=a",
	)
	b.answers(b.ask("GET", "/ui/clusters?q=a", nil), 200, "behind")
	for name, value := range b.cookies {
		if strings.Contains(value, "good") || len(b.cookies) != 1 {
			t.Errorf("the cookie %s is %s", name, value)
		}
	}
	b.clock.SetTime(b.clock.Now().Add(sessionLife - time.Second))
	b.answers(b.ask("GET", "/ui/", nil), 200, "behind")
	b.clock.SetTime(b.clock.Now().Add(time.Second))
	b.answers(b.ask("GET", "/ui/", nil), 401, "for as long as one may be")
	b.answers(b.ask("POST", "/ui/login", tokenForm("good")), 303, "/ui/")
	b.answers(b.ask("POST", "/ui/logout", nil), 303, "/ui/login")
	b.answers(b.ask("GET", "/ui/", nil), 401, `name="token"`)
}

// A session is the token of the page alone: what is not the page never sees it.
func TestASessionIsForThePageAlone(t *testing.T) {
	b := newBrowser(t, nil)
	b.ask("POST", "/ui/login", tokenForm("good"))
	for _, path := range []string{"/api/v1/secrets", "/uix", "/", "/readyz"} {
		b.reached = nil
		b.ask("GET", path, nil)
		if len(b.reached) != 1 || b.reached[0] != path+" " {
			t.Errorf("%s reached %q", path, b.reached)
		}
	}
	// A token that the request bears itself counts.
	b.reached = nil
	b.ask("GET", "/ui/", nil, "Authorization", "Bearer other")
	if len(b.reached) != 1 || b.reached[0] != "/ui/ Bearer other" {
		t.Errorf("reached %q", b.reached)
	}
}

// Cookies that the hub has not sealed, or for something else, are worth nothing.
func TestForgedSessionsAreWorthNothing(t *testing.T) {
	b := newBrowser(t, nil)
	b.ask("POST", "/ui/login", tokenForm("good"))
	s := b.front.seal.Load()
	sealed := b.cookies[s.sessionCookie()]
	other := newBrowser(t, nil)
	testkit.Must(t, other.front.UseKey([]byte("another key of exactly 32 bytes.")))
	good := session{Token: "good", Until: b.clock.Now().Add(time.Hour)}
	for name, value := range map[string]string{
		"none": "", "no base64": "%%%", "short": "QQ", "cut": sealed[:len(sealed)-4],
		"swapped":         sealed[4:] + sealed[:4],
		"another purpose": s.sealed(good, purposeLogin),
		"another hub's":   other.front.seal.Load().sealed(good, purposeSession),
	} {
		b.cookies = map[string]string{s.sessionCookie(): value}
		b.reached = nil
		if w := b.ask("GET", "/ui/", nil); w.Code != 401 || b.reached[0] != "/ui/ " {
			t.Errorf("%s: %d, %q", name, w.Code, b.reached)
		}
	}
	if a, b := s.sessionCookie(), other.front.seal.Load().sessionCookie(); a == b {
		t.Errorf("two hubs on one machine share the cookie %s", a)
	}
}

// tokenForm is the form of the login.
func tokenForm(token string) url.Values { return url.Values{"token": {token}} }

func TestTheLoginRefuses(t *testing.T) {
	for name, x := range map[string]struct {
		method, path string
		form         url.Values
		headers      []string
		status       int
		want         string
	}{
		"nothing":      {"POST", "/ui/login", tokenForm(""), nil, 400, "The token is empty"},
		"a kubeconfig": {"POST", "/ui/login", tokenForm("apiVersion: v1\nkind: Config"), nil, 400, "no blanks"},
		"a header":     {"POST", "/ui/login", tokenForm("a\r\nX: y"), nil, 400, "no blanks"},
		"an endless token": {"POST", "/ui/login", tokenForm(strings.Repeat("a", 4000)), nil, 400,
			"has 4000 characters"},
		"a flood": {"POST", "/ui/login", tokenForm(strings.Repeat("a", 1<<20)), nil, 400, "The token is empty"},
		"another site's form": {"POST", "/ui/login", tokenForm("good"), []string{"Sec-Fetch-Site", "cross-site"}, 403,
			"Another site"},
		"another origin": {"POST", "/ui/logout", url.Values{}, []string{"Origin", "https://evil.example.com"}, 403,
			"Another site"},
		"a link to log out": {"GET", "/ui/logout", nil, nil, 405, "POST"},
		"a change":          {"DELETE", "/ui/login", nil, nil, 405, "GET, POST"},
		"a style to write":  {"PUT", "/ui/style.css", nil, nil, 405, "GET, HEAD"},
		"no provider":       {"GET", "/ui/oidc/login", nil, nil, 404, "no login by OpenID Connect"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBrowser(t, nil)
			w := b.ask(x.method, x.path, x.form, x.headers...)
			b.answers(w, x.status, "")
			if !strings.Contains(w.Body.String()+w.Header().Get("Allow"), x.want) || len(b.cookies) > 0 {
				t.Errorf("the cookies are %v, and it says\n%s", b.cookies, w.Body)
			}
		})
	}
	starting := NewFront(clocktesting.NewFakePassiveClock(time.Now()), nil)
	b := newBrowser(t, nil)
	b.front = starting
	b.answers(b.ask("POST", "/ui/login", tokenForm("good")), 503, "The hub is starting")
}

// Nobody is sent elsewhere after a login.
func TestALoginLeadsToThePage(t *testing.T) {
	for next, want := range map[string]string{
		"/ui/clusters/a?x=1": "/ui/clusters/a?x=1", "/ui/works/a/b": "/ui/works/a/b", "": "/ui/", "/ui": "/ui/",
		"https://evil.example.com/ui/": "/ui/", "//evil.example.com/ui/": "/ui/", "/\\evil.example.com": "/ui/",
		"/ui/\\evil": "/ui/", "javascript:alert(1)": "/ui/", "/api/v1/secrets": "/ui/", "/ui/../api": "/ui/",
		"/ui/login": "/ui/", "/ui/logout": "/ui/", "/ui/oidc/login": "/ui/", "ui/clusters": "/ui/",
		"/ui/%2e%2e/api": "/ui/",
		"%zz":            "/ui/", "/ui/a\r\nX: y": "/ui/",
	} {
		if got := inPage(next); got != want {
			t.Errorf("%q leads to %q, want %q", next, got, want)
		}
	}
}

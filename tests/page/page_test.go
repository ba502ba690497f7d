package page

import (
	"context"
	"crypto/tls"
	_ "embed"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

//go:embed audit.js
var audit string

// wait is how long a page may take before a test gives up.
const wait = 60 * time.Second

// tab is a tab of a browser that has logged in as a user.
type tab struct {
	testing.TB
	ctx context.Context
}

// browse starts a browser for a test.
func browse(t testing.TB) *tab {
	t.Helper()
	out, err := exec.Command("../../hack/browser.sh").Output()
	if err != nil {
		if os.Getenv("MUSTER_NEEDS_BROWSER") != "" {
			t.Fatalf("no browser: %v", err)
		}
		t.Skip("there is no Chromium, and none could be installed: hack/browser.sh says how to get one")
	}
	ctx, end := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(strings.TrimSpace(string(out))), chromedp.NoSandbox, chromedp.WindowSize(1280, 900),
		chromedp.IgnoreCertErrors, chromedp.Flag("disable-dev-shm-usage", true))...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	if err := chromedp.Run(ctx); err != nil { // the browser lives as long as the context that starts it
		t.Fatalf("start the browser: %v", err)
	}
	return &tab{TB: t, ctx: ctx}
}

// do does things in the tab.
func (b *tab) do(actions ...chromedp.Action) {
	b.Helper()
	ctx, end := context.WithTimeout(b.ctx, wait)
	defer end()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.Fatalf("%v", err)
	}
}

// open opens a path of the page.
func (b *tab) open(path string) {
	b.Helper()
	b.do(chromedp.Navigate(hub.url + path))
}

// logIn logs in by a token.
func (b *tab) logIn(token string) {
	b.Helper()
	b.open("/ui/")
	b.do(chromedp.SetValue("#token", token), chromedp.Click(".login button"), chromedp.WaitVisible("header nav"))
}

// text is what the page shows.
func (b *tab) text() (text string) {
	b.Helper()
	b.do(chromedp.Text("body", &text, chromedp.ByQuery))
	return text
}

// shows fails unless the page shows texts.
func (b *tab) shows(wants ...string) {
	b.Helper()
	text := b.text()
	for _, want := range wants {
		if unwanted, not := strings.CutPrefix(want, "!"); strings.Contains(text, unwanted) == not {
			b.Errorf("want %q: the page shows\n%.3000s", want, text)
		}
	}
}

// pages are one of each kind.
var pages = map[string]string{
	"login": "/ui/login", "overview": "/ui/", "clusters": "/ui/clusters", "cluster": "/ui/clusters/edge-00003",
	"filtered":  "/ui/clusters?q=edge-0000&level=ok&labels=region%3Deu&set=production",
	"placement": "/ui/placements/shop/web", "rollout": "/ui/rollouts/shop/web", "works": "/ui/works",
	"add-ons": "/ui/addons", "clouds": "/ui/clouds", "nothing": "/ui/nothing", "wrong": "/ui/clusters?labels=%3D",
	"gone": "/ui/clusters/gone", "hostile": "/ui/clusters/edge-00004",
}

// Everybody can use each page, light and dark, on a desk and on a phone.
func TestEverybodyCanUseThePage(t *testing.T) {
	b := browse(t)
	b.logIn(hub.viewer)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 360} {
			b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme",
				Value: scheme}}), chromedp.EmulateViewport(width, 900))
			for name, path := range pages {
				b.open(path)
				var found []string
				b.do(chromedp.Evaluate(audit, &found))
				for _, x := range found {
					t.Errorf("%s, %s, %d pixels: %s", name, scheme, width, x)
				}
			}
		}
	}
}

// A fleet of ten thousand clusters is shown within a second: by the median of some loads,
// from the click until all is there.
func TestAPageOfALargeFleetIsThereWithinASecond(t *testing.T) {
	b := browse(t)
	b.logIn(hub.viewer)
	for _, name := range []string{"overview", "clusters", "filtered", "cluster", "placement"} {
		var took []float64
		for range 5 {
			b.open(pages[name])
			var ms float64
			b.do(chromedp.Evaluate(`performance.getEntriesByType("navigation")[0].loadEventEnd`, &ms))
			took = append(took, ms)
		}
		slices.Sort(took)
		t.Logf("%s: %.0f ms", name, took)
		if took[0] == 0 || took[len(took)/2] > 1000 {
			t.Errorf("%s took %.0f ms", name, took)
		}
	}
}

// What clusters report is text on the page, and never part of it.
func TestNothingRunsInThePage(t *testing.T) {
	b := browse(t)
	b.logIn(hub.viewer)
	for _, path := range []string{"/ui/clusters/edge-00004", "/ui/clusters?q=" + url.QueryEscape(evil),
		"/ui/clusters?labels=" + url.QueryEscape(evil),
		"/ui/" + url.PathEscape(evil), "/ui/clusters/" + url.PathEscape(evil),
		"/ui/login?next=" + url.QueryEscape("javascript:"+evil)} {
		b.open(path)
		var title string
		var scripts, images int
		b.do(chromedp.Title(&title), chromedp.Evaluate("document.scripts.length", &scripts),
			chromedp.Evaluate("document.images.length", &images))
		if title == "evil" || scripts+images > 0 {
			t.Errorf("%s: the title is %q, and there are %d scripts and %d images", path, title, scripts, images)
		}
	}
	b.open("/ui/clusters/edge-00004")
	b.shows(evil)
	// Even markup that got in would not run.
	b.do(
		chromedp.Evaluate(`(() => { const s = document.createElement("script"); s.textContent = "document.title='evil'";
		document.body.append(s); return 0 })()`, nil),
	)
	var title string
	b.do(chromedp.Title(&title))
	if title == "evil" {
		t.Error("a script ran")
	}
}

// Reading needs no scripts: logging in, filtering, going from page to page, logging out.
func TestThePageWorksWithoutScripts(t *testing.T) {
	b := browse(t)
	b.do(emulation.SetScriptExecutionDisabled(true))
	b.logIn(hub.viewer)
	b.shows("Logged in as system:serviceaccount:default:viewer", "10000", "Cluster sets", "production")
	b.do(chromedp.Click(`//nav//a[text()="Clusters"]`, chromedp.BySearch), chromedp.WaitVisible("form.filter"))
	b.shows("1 to 100 of 10000 that match", "edge-00003")
	b.do(
		chromedp.SendKeys("#q", "edge-00003"),
		chromedp.Click(".filter button"),
		chromedp.WaitVisible(`//p[contains(., "1 of 10000")]`,
			chromedp.BySearch),
	)
	b.do(chromedp.Click(`//td/a[contains(., "edge-00003")]`, chromedp.BySearch), chromedp.WaitVisible("p.state"))
	b.shows("its own API server is not ok", "Why, and what to do next", "What happened", "v1.37.1", "region")
	b.do(chromedp.Click("header form button"), chromedp.WaitVisible("#token"))
	b.open("/ui/clusters")
	b.shows("Token", "!edge-00003")
}

// Who may see one namespace sees that, and is told what is left out.
func TestATenantSeesItsNamespaceAlone(t *testing.T) {
	b := browse(t)
	b.logIn(hub.tenant)
	b.shows("you may not list clusters", "!edge-00003")
	b.open("/ui/placements")
	b.shows("fill in one in which you may", "!shop")
	b.open("/ui/placements?namespace=shop")
	b.shows("web", "1 of 1")
	b.open("/ui/placements/shop/web")
	b.shows("The placement shop/web selects", "What is left out", "you may not read")
	for _, path := range []string{"/ui/clusters/edge-00003", "/ui/works/edge-00003/web",
		"/ui/clusters/edge-00003?namespace=shop"} {
		b.open(path)
		b.shows("You may not see this", "!region")
	}
	// What has no namespace is in none.
	b.open("/ui/clusters?namespace=shop")
	b.shows("you may not list clusters", "!edge-0")
}

// A wrong or withdrawn token leads to the login, with the reason, and back to what was
// asked for.
func TestTheLoginSaysWhatIsWrong(t *testing.T) {
	b := browse(t)
	b.open("/ui/clusters/edge-00001")
	b.do(chromedp.SetValue("#token", "abc"), chromedp.Click(".login button"), chromedp.WaitVisible(`[role="alert"]`))
	b.shows("not valid any more. Log in again")
	b.do(chromedp.SetValue("#token", hub.viewer), chromedp.Click(".login button"), chromedp.WaitVisible("p.state"))
	b.shows("edge-00001")
	var cookies []*network.Cookie
	b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		cookies, err = network.GetCookies().Do(ctx)
		return err
	}))
	if len(cookies) != 1 || !cookies[0].HTTPOnly || !cookies[0].Secure || cookies[0].Path != "/ui/" ||
		strings.Contains(cookies[0].Value, hub.viewer[:20]) {
		t.Errorf("the cookies are %+v", cookies)
	}
}

// A client certificate is enough, and without any the page shows the login to everybody
// alike.
func TestThePageTakesTheAPIsCredentials(t *testing.T) {
	get := func(config *rest.Config, path string, change func(*http.Request)) (int, string) {
		client, err := rest.HTTPClientFor(config)
		testkit.Must(t, err)
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, hub.url+path, nil)
		testkit.Must(t, err)
		if change != nil {
			change(req)
		}
		res, err := client.Do(req)
		testkit.Must(t, err)
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		testkit.Must(t, err)
		return res.StatusCode, string(body)
	}
	anonymous := rest.AnonymousClientConfig(hub.config)
	for _, x := range []struct {
		who    string
		config *rest.Config
		path   string
		change func(*http.Request)
		status int
		wants  string
	}{
		{"the administrator", hub.config, "/ui/", nil, http.StatusOK, "Logged in as <bdi>muster-admin</bdi>"},
		{"a bearer token", anonymous, "/ui/",
			func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+hub.viewer) },
			http.StatusOK, "viewer"},
		{"nobody", anonymous, "/ui/clusters/edge-00001", nil, http.StatusUnauthorized, `name="token"`},
		{"a cookie of another hub", anonymous, "/ui/", func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: "__Secure-muster-00000000", Value: "x"})
		}, http.StatusUnauthorized, `name="token"`},
		{"a change", hub.config, "/ui/clusters", func(r *http.Request) { r.Method = http.MethodDelete },
			http.StatusMethodNotAllowed, "GET, HEAD"},
		{"another site's form", anonymous, "/ui/login", func(r *http.Request) {
			r.Method = http.MethodPost
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}, http.StatusForbidden, "Another site"},
		{"the API with the page's path", anonymous, "/ui/../api/v1/secrets", nil, http.StatusUnauthorized, ""},
	} {
		status, body := get(x.config, x.path, x.change)
		if status != x.status && x.wants != "" || !strings.Contains(body, x.wants) ||
			strings.Contains(body, "edge-00001<") {
			t.Errorf("%s: %d, %.300s", x.who, status, body)
		}
	}
	// The page is never sent without encryption.
	plain := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13}}}
	if res, err := plain.Get(strings.Replace(hub.url, "https", "http", 1) + "/ui/"); err == nil {
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			t.Error("it is served without TLS")
		}
	}
}

// The screenshots in the documents are taken where MUSTER_SCREENSHOTS names a folder.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("MUSTER_SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	b := browse(t)
	b.logIn(hub.viewer)
	for _, scheme := range []string{"light", "dark"} {
		for _, name := range []string{"overview", "cluster"} {
			var picture []byte
			b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme",
				Value: scheme}}), chromedp.EmulateViewport(1280, 900))
			b.open(pages[name])
			b.do(chromedp.CaptureScreenshot(&picture))
			if len(picture) < 10000 {
				t.Errorf("the screenshot of %s has %d bytes", name, len(picture))
			}
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "page-"+name+"-"+scheme+".png"), picture, 0o600))
		}
	}
}

package addon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/certificate"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

const (
	// respite is how long no other credential is asked for after one was had, unless
	// another one is wanted. It bounds what short lives cost.
	respite = 10 * time.Second
	// foreignPause is how often a Secret is looked at that is in the way.
	foreignPause = time.Minute
	// holdPatience is how long a namespace may be missing before it is reported to the hub.
	holdPatience = 30 * time.Second
)

// slot is what the agent remembers of one Secret of an add-on.
type slot struct {
	// identity is that of the wanted credential.
	identity string
	// request and keyPEM are the certificate request that is under way.
	request string
	keyPEM  []byte
	// needsRequests says that the hub's certificate requests have to be watched.
	needsRequests bool
	// held is a credential that has to be stored yet, since a time.
	held      *credential
	heldSince time.Time
	// chance spreads renewals.
	chance float64

	backoff *retry.Backoff
	// until is when to try again, failed what to report until then.
	until  time.Time
	failed *metav1.Condition
	// logged keeps the log quiet.
	logged retry.Once
}

func (a *agent) newSlot(identity string) *slot {
	return &slot{identity: identity, backoff: retry.New(a.Clock, retry.Start(5*time.Minute)), chance: rand.Float64()}
}

// outcome is what has come of one registration in a pass.
type outcome struct {
	// condition is what to report; nil for nothing new. since says which of several
	// good ones is the newest.
	condition *metav1.Condition
	since     time.Time
	// after is after how long to look again; 0 waits for news.
	after time.Duration
}

// problem is an error with the condition to report, which is empty for none. pause is
// for how long nothing is tried again; 0 is as a backoff says, and untilNews until
// there is news, or after a time.
type problem struct {
	error
	condition    metav1.Condition
	pause, after time.Duration
}

const untilNews = time.Duration(-1)

func (p problem) Unwrap() error { return p.error }

// errWaiting is that there is nothing to do until there is news.
var errWaiting = errors.New("waiting")

// obtain brings a registration as far as it goes now.
func (a *agent) obtain(
	ctx context.Context, m *addonv1beta1.ManagedClusterAddOn, r registration.Registration, of *state,
) outcome {
	now := a.Clock.Now()
	w, err := a.wantedOf(m, r)
	s := of.slots[r.Secret()]
	if s == nil || s.identity != w.identity() {
		s = a.newSlot(w.identity())
		of.slots[r.Secret()] = s
	}
	if err == nil {
		err = a.checkPlace(r)
	}
	if err != nil {
		return a.outcomeOf(m, r, s, standing{err: err}, err)
	}
	s.needsRequests = false
	secret := a.ownSecret(r)
	if a.isBehind(r, secret) {
		return outcome{after: engine.CopyTimeout}
	}
	have := w.inspect(secret, now, s.chance)
	switch {
	case have.err == nil && s.held == nil && now.Before(have.renewAt):
		return a.outcomeOf(m, r, s, have, nil)
	case now.Before(s.until):
		o := outcome{condition: s.failed, after: s.until.Sub(now)}
		if o.condition == nil && have.err == nil {
			o.condition, o.since = &have.condition, have.since
		}
		return o
	}
	stored, err := a.replace(ctx, m, w, s, secret)
	if err == nil {
		have = w.inspect(stored, now, s.chance)
	}
	return a.outcomeOf(m, r, s, have, err)
}

// wantedOf is the credential of a registration as it has to be.
func (a *agent) wantedOf(m *addonv1beta1.ManagedClusterAddOn, r registration.Registration) (wanted, error) {
	if r.IsCertificate() {
		return a.want(r, "")
	}
	account, err := registration.AnnouncedUID(m)
	switch {
	case err == registration.ErrTokenInfrastructure: //nolint:errorlint // the hub has said nothing yet
		return wanted{Registration: r}, errWaiting
	case err != nil:
		return wanted{Registration: r}, problem{error: err, condition: r.FailedBy(err, false), pause: untilNews}
	}
	return a.want(r, account)
}

// checkPlace explains why nothing can be stored for a registration.
func (a *agent) checkPlace(r registration.Registration) error {
	if err := a.checkNamespace(r.Namespace); err != nil {
		return problem{error: err, condition: r.FailedBy(err, false), pause: untilNews}
	}
	at := a.places.get(r.Namespace)
	if at == nil || at.secrets == nil {
		return errWaiting
	}
	if at.secrets.IsComplete() && at.namespace.IsComplete() {
		return nil
	}
	for _, err := range []error{at.secrets.Failure(), at.namespace.Failure()} {
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("the agent lacks rights for credentials of add-ons in the namespace %s: "+
				"bind the ClusterRole %s to it there: %w",
				r.Namespace, cluster.AddOnRole, err)
			return problem{error: err, condition: r.FailedBy(err, false), pause: untilNews}
		}
	}
	return errWaiting
}

// ownSecret is the Secret of a registration as far as the agent has made it, or nil.
func (a *agent) ownSecret(r registration.Registration) *corev1.Secret {
	at := a.places.get(r.Namespace)
	if at == nil || at.secrets == nil {
		return nil
	}
	secret, ok := at.secrets.Get(r.Namespace, r.Secret())
	if !ok || !a.isOurs(secret, r.AddOn) {
		return nil
	}
	return secret
}

// isBehind reports whether a Secret, which may be nil, is older than what the agent has
// written.
func (a *agent) isBehind(r registration.Registration, secret *corev1.Secret) bool {
	if secret == nil {
		secret = &corev1.Secret{}
	}
	return a.writtenSecrets.IsBehind(client.ObjectKey{Namespace: r.Namespace, Name: r.Secret()}, secret)
}

// replace gets a credential and stores it. It returns the Secret when it has.
func (a *agent) replace(
	ctx context.Context, m *addonv1beta1.ManagedClusterAddOn, w wanted, s *slot, secret *corev1.Secret,
) (*corev1.Secret, error) {
	a.journal.storing.RLock()
	defer a.journal.storing.RUnlock()
	if secret == nil && s.held == nil && s.request == "" {
		taken, err := a.takeOver(ctx, w, s)
		if taken != nil || err != nil {
			return taken, err
		}
	}
	if s.held == nil {
		var c credential
		var err error
		if w.IsCertificate() {
			c, err = a.certificate(ctx, w, s)
		} else {
			c, err = a.token(ctx, m, w)
		}
		if err != nil {
			return nil, err
		}
		s.held, s.heldSince = &c, a.Clock.Now()
	}
	stored, err := a.store(ctx, w, s, secret)
	if err != nil {
		return nil, err
	}
	s.held, s.chance, s.until = nil, rand.Float64(), a.Clock.Now().Add(respite)
	s.backoff.Reset()
	return stored, nil
}

// outcomeOf puts together what to report of a registration, and notes a failure.
func (a *agent) outcomeOf(
	m *addonv1beta1.ManagedClusterAddOn, r registration.Registration, s *slot, have standing, err error,
) outcome {
	now := a.Clock.Now()
	var o outcome
	if have.err == nil && !have.renewAt.IsZero() {
		o.condition, o.since = &have.condition, have.since
		o.after = max(have.renewAt.Sub(now), s.until.Sub(now), time.Millisecond)
	}
	if err == nil {
		s.failed = nil
		if s.logged.Clear() {
			a.Log.Info("the registration of the add-on works again", about(m, r)...)
		}
		return o
	}
	if errors.Is(err, errWaiting) {
		s.failed, o.after = nil, 0
		return o
	}
	p := problem{}
	if !errors.As(err, &p) {
		p = problem{error: err, condition: r.FailedBy(err, false)}
	}
	if s.logged.Changed(err.Error()) {
		a.Log.Warn("cannot register the add-on", append(about(m, r), "err", err)...)
	}
	o.after = p.after
	if p.condition.Type != "" {
		o.condition = &p.condition
	}
	if p.pause == 0 {
		p.pause = s.backoff.Next()
	}
	if p.pause > 0 {
		s.until, o.after = now.Add(p.pause), p.pause
	}
	s.failed = o.condition
	return o
}

// about are the attributes of log lines about a registration.
func about(m *addonv1beta1.ManagedClusterAddOn, r registration.Registration) []any {
	return []any{"addon", m.Name, "secret", r.Namespace + "/" + r.Secret()}
}

// certificate takes a certificate request one step further, and returns the
// certificate when the hub has signed it.
func (a *agent) certificate(ctx context.Context, w wanted, s *slot) (credential, error) {
	s.needsRequests = true
	known, err := a.requests.use(w.AddOn)
	if err != nil {
		return credential{}, err
	}
	if !known {
		return credential{}, errWaiting
	}
	if s.request != "" {
		own, err := a.requests.find(ctx, s.request)
		switch {
		case err != nil:
			return credential{}, err
		case own == nil: // the hub has removed it
			s.request, s.keyPEM = "", nil
		case certificate.Has(own, certificatesv1.CertificateDenied),
			certificate.Has(own, certificatesv1.CertificateFailed):
			err := fmt.Errorf("the hub turned down the certificate request %s (%s), "+
				"and another one follows when it is gone: kubectl delete csr %[1]s",
				own.Name, certificate.Why(own))
			return credential{}, problem{error: err, condition: w.FailedBy(err, false), pause: untilNews}
		case !certificate.Has(own, certificatesv1.CertificateApproved), len(own.Status.Certificate) == 0:
			return credential{}, errWaiting
		default:
			keyPEM := s.keyPEM
			s.request, s.keyPEM = "", nil
			return w.certificateOf(own.Status.Certificate, keyPEM, a.Clock.Now())
		}
	}
	if a.requests.countOf(w.AddOn) >= cluster.MaxPendingRequests {
		err := fmt.Errorf("the hub has %d or more certificate requests of the add-on: "+
			"delete those that are of no use: kubectl delete csr -l %s=%s,%s=%s",
			cluster.MaxPendingRequests, cluster.NameLabel, w.Cluster, cluster.AddOnNameLabel, w.AddOn)
		return credential{}, problem{error: err, condition: w.Failed(cluster.MessageTooManyRequests), pause: untilNews}
	}
	if err := a.request(ctx, w, s); err != nil {
		return credential{}, err
	}
	return credential{}, errWaiting
}

// request asks the hub for a certificate.
func (a *agent) request(ctx context.Context, w wanted, s *slot) error {
	keyPEM, csr, err := certificate.New(certificate.Wanted{
		GenerateName: registration.RequestPrefix(w.Cluster, w.AddOn),
		Labels:       registration.RequestLabels(w.Cluster, w.AddOn),
		Subject:      w.Subject(), DNSNames: []string{registration.DNSName(w.AddOn)}, Signer: w.Signer,
	})
	if err == nil {
		err = a.hub.Create(ctx, csr)
	}
	if err != nil {
		return problem{error: fmt.Errorf("create a certificate request: %w", err), condition: w.FailedBy(err, true)}
	}
	s.request, s.keyPEM = csr.Name, keyPEM
	a.requests.add(w.AddOn, csr.Name)
	a.Log.Info("asked the hub for a certificate of an add-on",
		"addon", w.AddOn, "request", csr.Name, "signer", w.Signer, "user", w.User)
	return nil
}

// token asks the hub for a token of the add-on's service account.
func (a *agent) token(ctx context.Context, m *addonv1beta1.ManagedClusterAddOn, w wanted) (credential, error) {
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = m.Namespace, registration.ServiceAccount(m.Name)
	request := &authenticationv1.TokenRequest{
		// A newer API server refuses another service account of that name by it.
		ObjectMeta: metav1.ObjectMeta{UID: w.account},
		Spec:       authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(a.TokenExpiration.Seconds()))},
	}
	if err := a.hub.SubResource("token").Create(ctx, account, request); err != nil {
		return credential{}, err
	}
	token := []byte(request.Status.Token)
	if len(token) == 0 {
		return credential{}, errors.New("the hub issued none")
	}
	t, err := registration.ParseToken(token)
	if err == nil {
		err = t.Check(w.account, a.Clock.Now())
	}
	if err != nil {
		return credential{}, fmt.Errorf("what the hub issued cannot be used: %w", err)
	}
	return credential{token: token}, nil
}

type request = certificatesv1.CertificateSigningRequest

// requests are the certificate requests of all add-ons of the cluster on the hub. They
// are watched only while one is under way: the hub looks at each change of a request
// for each agent that watches. It is safe for concurrent use.
type requests struct {
	*agent

	mu sync.Mutex
	// users are the add-ons that need them.
	users sets.Set[string]
	watch *engine.Watch[*request]
	end   context.CancelFunc
	// made are requests that the watch may not show yet, with their add-ons.
	made map[string]string
}

func newRequests(a *agent) *requests {
	return &requests{agent: a, users: sets.New[string](), made: map[string]string{}}
}

// use watches the requests until release. ok is false until they are known.
func (r *requests) use(addOn string) (ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watch == nil {
		ctx, end := context.WithCancel(r.ctx)
		r.watch, err = engine.StartWatch(ctx, &r.places.running, engine.WatchOptions[*request]{
			Client: r.hub, Object: &request{}, List: &certificatesv1.CertificateSigningRequestList{},
			Select: []client.ListOption{
				client.MatchingLabels{cluster.NameLabel: r.ClusterName}, client.HasLabels{cluster.AddOnNameLabel},
			},
			Changed: func(_, now *request) { r.queue.Add(now.Labels[cluster.AddOnNameLabel]) },
			Report:  r.watched,
		})
		if err != nil {
			end()
			return false, err
		}
		r.end = end
	}
	r.users.Insert(addOn)
	return r.watch.IsComplete(), nil
}

// watched takes the reports of the watch: all who wait for it go on when it is
// complete.
func (r *requests) watched(err error) {
	if err != nil {
		r.Log.Debug("cannot watch the add-ons' certificate requests on the hub, trying again", "err", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for addOn := range r.users {
		r.queue.Add(addOn)
	}
}

// release ends the watch when no other add-on needs it.
func (r *requests) release(addOn string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users.Delete(addOn)
	if r.users.Len() == 0 && r.watch != nil {
		r.end()
		r.watch = nil
		clear(r.made)
	}
}

// add notes a request that was just made.
func (r *requests) add(addOn, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made[name] = addOn
}

// find is a request that the agent has made, nil when the hub no longer has it. The
// watch may not show it yet.
func (r *requests) find(ctx context.Context, name string) (*request, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own, ok := r.watch.Get("", name); ok {
		return own, nil
	}
	live := &request{}
	err := r.hub.Get(ctx, client.ObjectKey{Name: name}, live)
	switch {
	case apierrors.IsNotFound(err):
		delete(r.made, name)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the certificate request %s: %w", name, err)
	}
	return live, nil
}

// countOf is how many requests of an add-on the hub has, in any state. Those count
// that agents of the cluster have made: others could keep the add-on from a
// certificate.
func (r *requests) countOf(addOn string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, one := range r.watch.Objects() {
		delete(r.made, one.Name)
		if one.Labels[cluster.AddOnNameLabel] == addOn && registration.MadeByAgent(one, r.ClusterName) {
			n++
		}
	}
	for _, of := range r.made {
		if of == addOn {
			n++
		}
	}
	return n
}

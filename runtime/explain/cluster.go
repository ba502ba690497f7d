package explain

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

type csr = certificatesv1.CertificateSigningRequest

// ClusterFacts are what a hub knows of a cluster. All but the cluster itself may be
// missing; what is missing is not judged.
type ClusterFacts struct {
	Cluster *clusterv1.ManagedCluster
	// Lease is the cluster's heartbeat.
	Lease *coordinationv1.Lease
	// Requests are the certificate requests of its agents; RequestsRead says whether they
	// could be read, so that none means that there is none.
	Requests     []csr
	RequestsRead bool
	// RequestEvents are what was said about the requests, by their names.
	RequestEvents map[string][]Event
	// Hub is where the hub is; nil for a hub that does not publish it.
	Hub *hubinfo.Endpoints
	// Left are the objects in the namespace of a cluster that is being deleted.
	Left []Left
	// Now is the hub's time, or one near it.
	Now time.Time
}

// Left is an object that a deletion waits for.
type Left struct {
	Kind       string
	Name       string
	Deleting   bool
	Finalizers []string
}

// Cluster explains a managed cluster.
func Cluster(f ClusterFacts) Explanation {
	m := f.Cluster
	level, state := ClusterState(m, f.Now)
	e := Explanation{Kind: "ManagedCluster", Name: m.Name, Level: level, State: state}
	if main := f.mainCause(); main != nil {
		main.Level = level
		e.add(*main)
	}
	if m.DeletionTimestamp.IsZero() && m.Spec.AcceptsClient() {
		e.add(f.heartbeat()...)
		e.add(f.clock()...)
		e.add(f.endpoint()...)
		e.add(f.certificate()...)
		e.add(f.laterRequests()...)
		e.add(f.managedNamespaces()...)
	}
	e.add(f.taints()...)
	return e
}

// stage is how far a cluster is on its way to being available.
type stage int

const (
	deleting      stage = iota
	reserved            // its name is reserved
	withoutRights       // the hub could not give it its rights
	denied              // it was accepted once, or somebody has said no
	unaccepted          // nobody has accepted it
	accepting           // the hub is giving it its rights
	joining             // its agent has no certificate yet
	reporting           // its agent has not reported yet
	unreachable         // its agent is silent
	unavailable         // its agent says that its API server is not ok
	available
)

func stageOf(m *clusterv1.ManagedCluster) stage {
	conditions := m.Status.Conditions
	accepted := meta.FindStatusCondition(conditions, cluster.ConditionHubAccepted)
	refused := accepted != nil && accepted.Status == metav1.ConditionFalse
	availability := meta.FindStatusCondition(conditions, cluster.ConditionAvailable)
	joined := meta.IsStatusConditionTrue(conditions, cluster.ConditionJoined)
	switch {
	case !m.DeletionTimestamp.IsZero():
		return deleting
	case refused && accepted.Reason == cluster.ReasonNameReserved:
		return reserved
	case refused && accepted.Reason == cluster.ReasonError && m.Spec.AcceptsClient():
		return withoutRights
	case !m.Spec.AcceptsClient() && (joined || refused):
		return denied
	case !m.Spec.AcceptsClient():
		return unaccepted
	case accepted == nil, accepted.Status != metav1.ConditionTrue:
		return accepting
	case !joined:
		return joining
	case availability == nil:
		return reporting
	case availability.Status == metav1.ConditionUnknown:
		return unreachable
	case availability.Status == metav1.ConditionFalse:
		return unavailable
	}
	return available
}

// silentSince is since when the hub does not hear from a cluster's agent.
func silentSince(m *clusterv1.ManagedCluster) (time.Time, bool) {
	c := meta.FindStatusCondition(m.Status.Conditions, cluster.ConditionAvailable)
	if c == nil || c.Status != metav1.ConditionUnknown {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Time, true
}

// ClusterState says in a sentence how a cluster is. It needs nothing but the
// ManagedCluster, so it is right for lists of clusters as well.
func ClusterState(m *clusterv1.ManagedCluster, now time.Time) (Level, string) {
	since := func() string {
		return ago(meta.FindStatusCondition(m.Status.Conditions, cluster.ConditionAvailable).LastTransitionTime.Time,
			now)
	}
	switch stageOf(m) {
	case deleting:
		level := Waiting
		if _, silent := silentSince(m); silent {
			level = Problem // nobody removes what the agent has made
		}
		return level, fmt.Sprintf("%s is being deleted. That was asked for at "+
			"%s.", m.Name, ago(m.DeletionTimestamp.Time, now))
	case reserved:
		return Problem, m.Name + " gets no rights on the hub, because its name is reserved."
	case withoutRights:
		return Problem, m.Name + " is accepted, but the hub could not give it its namespace and rights."
	case denied:
		return Warning, m.Name + " is denied: its agent has no rights on the hub."
	case unaccepted:
		return Waiting, m.Name + " waits to be accepted."
	case accepting:
		return Waiting, m.Name + " is accepted, and the hub has not given it its rights yet."
	case joining:
		return Waiting, m.Name + " is accepted, and its agent has not joined yet."
	case reporting:
		return Waiting, m.Name + " has joined, and its agent has not reported yet."
	case unreachable:
		return Problem, fmt.Sprintf("%s has been unreachable since %s: the hub does not hear from its "+
			"agent.", m.Name, since())
	case unavailable:
		return Problem, fmt.Sprintf("%s has been unavailable since %s: its own API server is not ok.", m.Name, since())
	default:
		return OK, m.Name + " is available."
	}
}

// Commands that several steps share.
const (
	agentPods = "kubectl -n " + cluster.AgentNamespace + " get pods"
	agentLog  = "kubectl -n " + cluster.AgentNamespace + " logs deployment/klusterlet-agent --tail 50"
	hubReady  = "kubectl get --raw '/readyz?verbose'"
)

// lookAtAgent are the steps that find out why a cluster's agent does not do something.
func lookAtAgent(name string) []Step {
	return []Step{
		{Do: "see whether the agent runs", Command: agentPods, In: name},
		{Do: "read what it says", Command: agentLog, In: name},
	}
}

// joinAgain is the step that lets an agent without an identity join again.
func (f *ClusterFacts) joinAgain(do string) Step {
	return Step{Do: do, Command: "muster rejoin " + f.Cluster.Name + " > bootstrap.kubeconfig"}
}

func (f *ClusterFacts) accept(do string) Step {
	const patch = `{"spec":{"hubAcceptsClient":true}}`
	return Step{Do: do,
		Command: fmt.Sprintf("kubectl patch managedcluster %s --type merge -p '%s'", f.Cluster.Name, patch)}
}

// evidence is a condition as evidence; none if the cluster has none.
func (f *ClusterFacts) evidence(kind string) []string {
	if c := meta.FindStatusCondition(f.Cluster.Status.Conditions, kind); c != nil {
		return []string{says(c, f.Now)}
	}
	return nil
}

// mainCause is why the cluster is not available; nil when it is.
func (f *ClusterFacts) mainCause() *Cause {
	m := f.Cluster
	switch stage := stageOf(m); stage {
	case deleting:
		return f.deletion()
	case reserved:
		return &Cause{
			Summary:  oneLine(meta.FindStatusCondition(m.Status.Conditions, cluster.ConditionHubAccepted).Message),
			Evidence: f.evidence(cluster.ConditionHubAccepted),
			Next: []Step{
				{Do: "delete it", Command: "kubectl delete managedcluster " + m.Name},
				{Do: "create the cluster under another name, in Terraform by the name of its muster_managed_cluster"},
			},
		}
	case withoutRights:
		return &Cause{
			Summary:  "The hub failed to make the cluster's namespace, roles or bindings. It tries again by itself.",
			Evidence: f.evidence(cluster.ConditionHubAccepted),
			Next:     []Step{{Do: "remove what the message names; when it names nothing of yours, read the hub's log"}},
		}
	case denied, unaccepted:
		return f.notAccepted(stage == denied)
	case accepting:
		return &Cause{
			Summary:  "The hub has not noted the acceptance. It does so within a second if its controllers run.",
			Evidence: f.evidence(cluster.ConditionHubAccepted),
			Next:     []Step{{Do: "if this lasts, see whether the hub is ready, and read its log", Command: hubReady}},
		}
	case joining:
		return f.notJoined()
	case reporting:
		return &Cause{
			Summary: "The agent has its certificate, and has not said how the cluster is. It does so within seconds.",
			Next:    lookAtAgent(m.Name),
		}
	case unreachable:
		return f.silent()
	case unavailable:
		return &Cause{
			Summary: "The agent runs and reaches the hub, but the API server of its own cluster does not answer " +
				"as it should.",
			Evidence: f.evidence(cluster.ConditionAvailable),
			Next:     []Step{{Do: "see what that API server says of itself", Command: hubReady, In: m.Name}},
		}
	}
	return nil
}

func (f *ClusterFacts) notAccepted(denied bool) *Cause {
	c := &Cause{Evidence: append([]string{"spec.hubAcceptsClient is " +
		"false"}, f.evidence(cluster.ConditionHubAccepted)...)}
	const terraform = "in Terraform, set accepted = true in its muster_cluster_acceptance (accept = true in the " +
		"module fleet-onboarding), " +
		"or the next apply denies it again"
	if denied {
		c.Summary = "Somebody has set spec.hubAcceptsClient to false. What runs in the cluster keeps running, and " +
			"nothing there changes until it is accepted again."
		c.Next = []Step{f.accept("if it should be a member, accept it again: its agent goes on with the " +
			"certificate that it has"), {Do: terraform}}
	} else {
		c.Summary = "Nobody has accepted the cluster. Its agent gets no certificate before."
		c.Next = []Step{f.accept("if you know the cluster, accept it"), {Do: "or in Terraform, with a " +
			"muster_cluster_acceptance"}}
	}
	if waiting := f.undecided(); len(waiting) > 0 {
		c.Evidence = append(c.Evidence, f.describe(waiting)...)
		if !denied {
			c.Next = append(c.Next, approval(waiting)...)
		}
	}
	return c
}

// silent explains a cluster whose agent the hub does not hear from.
func (f *ClusterFacts) silent() *Cause {
	m := f.Cluster
	c := &Cause{
		Summary: "The agent does not renew its lease: it does not run, can't reach the hub, or its certificate is " +
			"refused.",
		Evidence: f.evidence(cluster.ConditionAvailable),
		Next:     lookAtAgent(f.Cluster.Name),
	}
	if f.Lease != nil && f.Lease.Spec.RenewTime != nil {
		renewed := f.Lease.Spec.RenewTime.Time
		c.Evidence = append(c.Evidence, fmt.Sprintf("the lease %s/%s was last renewed at %s; the agent renews it "+
			"every %s, and the hub waits %s",
			m.Name, cluster.LeaseName, ago(renewed, f.Now), lasted(m.Spec.LeaseDuration()),
			lasted(m.Spec.LeaseGrace())))
		if f.Now.Sub(renewed) < m.Spec.LeaseDuration() {
			c.Summary = "The agent renews its lease again, and has not reported the cluster's state yet. It does " +
				"so within seconds."
			return c
		}
	}
	if waiting := f.undecided(); len(waiting) > 0 {
		c.Summary = "The agent has lost its identity and asks for another one: the hub leaves that to an " +
			"administrator, as the cluster has joined before."
		c.Evidence = append(c.Evidence, f.describe(waiting)...)
		c.Next = append(approval(waiting), f.joinAgain("or give the agent a token that may join again"))
		return c
	}
	c.Next = append(c.Next,
		f.joinAgain("if the agent's namespace is gone or the cluster was rebuilt: terraform apply, or join it "+
			"again with"),
		Step{Do: "if the cluster is gone for good, take it out of the fleet (in Terraform: gone = true in its " +
			"muster_managed_cluster)",
			Command: "muster detach " + m.Name + " --force"})
	return c
}

// notJoined explains an accepted cluster whose agent has no certificate.
func (f *ClusterFacts) notJoined() *Cause {
	if !f.RequestsRead {
		return &Cause{Summary: "Its agent has not used a certificate of its own on the hub.",
			Next: lookAtAgent(f.Cluster.Name)}
	}
	var refused, issued, unsigned []csr
	for _, r := range f.Requests {
		switch {
		case decidedAs(&r, certificatesv1.CertificateDenied), decidedAs(&r, certificatesv1.CertificateFailed):
			refused = append(refused, r)
		case decidedAs(&r, certificatesv1.CertificateApproved) && len(r.Status.Certificate) > 0:
			issued = append(issued, r)
		case decidedAs(&r, certificatesv1.CertificateApproved):
			unsigned = append(unsigned, r)
		}
	}
	waiting := f.undecided()
	switch {
	case len(waiting) > 0:
		return &Cause{
			Summary: fmt.Sprintf("The agent has asked for its certificate, and nobody has approved it: "+
				"%s.", plural(len(waiting), "certificate request")),
			Evidence: f.describe(waiting),
			Next:     approval(waiting),
		}
	case len(issued) > 0:
		return &Cause{
			Summary: "The agent's certificate is issued, and the agent has not used it yet. It does so within " +
				"seconds if it still runs.",
			Evidence: f.describe(issued), Next: lookAtAgent(f.Cluster.Name),
		}
	case len(unsigned) > 0:
		return &Cause{
			Summary:  "The agent's certificate request is approved, and the hub has not signed it.",
			Evidence: f.describe(unsigned),
			Next: []Step{{Do: "read the log of the hub; on an upstream hub, of the kube-controller-manager, " +
				"which signs"}},
		}
	case len(refused) > 0:
		names := nameList(refused)
		return &Cause{
			Summary: fmt.Sprintf("The agent's %s denied, or failed. The agent asks again when the request is "+
				"deleted.", wereOrWas(len(refused), "certificate request")),
			Evidence: f.describe(refused),
			Next: []Step{{Do: "if it was a mistake, delete it",
				Command: "kubectl delete csr " + strings.Join(names, " ")}},
		}
	}
	steps := append(lookAtAgent(f.Cluster.Name), Step{
		Do: "if no agent is installed: terraform apply with a muster_klusterlet, or print a manifest that " +
			"installs one",
		Command: fmt.Sprintf("muster join-manifest --cluster %s > %[1]s.yaml", f.Cluster.Name),
	})
	return &Cause{
		Summary: "The agent has not asked for a certificate: it is not installed, can't reach the hub, or its " +
			"bootstrap token is expired, used up or revoked.",
		Evidence: []string{fmt.Sprintf("the hub has no certificate request with the label "+
			"%s=%s", cluster.NameLabel, f.Cluster.Name)},
		Next: steps,
	}
}

// undecided are the requests that nobody has decided about, the newest first.
func (f *ClusterFacts) undecided() []csr {
	var out []csr
	for i := range f.Requests {
		if len(f.Requests[i].Status.Conditions) == 0 {
			out = append(out, f.Requests[i])
		}
	}
	slices.SortStableFunc(out, func(a, b csr) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	return out
}

// describe lists requests as evidence, with what was said about them.
func (f *ClusterFacts) describe(requests []csr) []string {
	var out []string
	for i := range requests[:min(len(requests), maxListed)] {
		r := &requests[i]
		out = append(out, fmt.Sprintf("certificate request %s of the user %q, made "+
			"%s", r.Name, r.Spec.Username, ago(r.CreationTimestamp.Time, f.Now)))
		for _, c := range r.Status.Conditions {
			out = append(out, fmt.Sprintf("%s is %s (%s): %s", r.Name, strings.ToLower(string(c.Type)), c.Reason,
				oneLine(c.Message)))
		}
		for _, e := range f.RequestEvents[r.Name] {
			out = append(out, fmt.Sprintf("the hub said of %s (%s): %s", r.Name, e.Reason, oneLine(e.Message)))
		}
	}
	if more := len(requests) - maxListed; more > 0 {
		out = append(out, fmt.Sprintf("and %d older ones", more))
	}
	return out
}

// approval are the steps that decide about requests.
func approval(waiting []csr) []Step {
	steps := []Step{}
	if len(waiting) > 1 {
		steps = append(steps, Step{Do: "find out which request is the agent's: its log names it, and anybody with " +
			"a bootstrap token can make others"})
	}
	newest := waiting[0].Name
	return append(steps,
		Step{Do: "if you know the requester, approve it", Command: "kubectl certificate approve " + newest},
		Step{Do: "if you do not, deny it", Command: "kubectl certificate deny " + newest})
}

// deletion explains what a cluster that is being deleted waits for.
func (f *ClusterFacts) deletion() *Cause {
	m := f.Cluster
	c := &Cause{
		Summary:  "The deletion waits for its finalizers: " + some(m.Finalizers) + ".",
		Evidence: f.evidence(cluster.ConditionDeleting),
	}
	var foreign []string
	for _, finalizer := range m.Finalizers {
		if finalizer != cluster.ResourceCleanupFinalizer && finalizer != cluster.APIResourceCleanupFinalizer {
			foreign = append(foreign, finalizer)
		}
	}
	for i, left := range f.Left {
		if i == maxListed {
			c.Evidence = append(c.Evidence, fmt.Sprintf("and %d more objects", len(f.Left)-i))
			break
		}
		c.Evidence = append(c.Evidence, left.String())
	}
	if len(f.Left) > 0 {
		c.Summary = fmt.Sprintf("The deletion waits for %s in the cluster's namespace on the hub. The agent first "+
			"removes what it has made in the cluster.", plural(len(f.Left), "object"))
		first := f.Left[0]
		switch first.Kind {
		case "ManifestWork":
			c.Next = append(c.Next, Step{Do: "see what the first one waits for",
				Command: fmt.Sprintf("muster explain work %s/%s", m.Name, first.Name)})
		case "ManagedClusterAddOn":
			c.Next = append(c.Next, Step{Do: "see what the first one waits for",
				Command: fmt.Sprintf("muster explain addon %s/%s", m.Name, first.Name)})
		}
	}
	if a := meta.FindStatusCondition(m.Status.Conditions, cluster.ConditionAvailable); a != nil &&
		a.Status == metav1.ConditionUnknown {
		c.Evidence = append(c.Evidence, says(a, f.Now))
		c.Next = append(c.Next, Step{
			Do:      "the agent is silent, and can remove nothing. If the cluster is gone for good, go on without it",
			Command: "muster detach " + m.Name + " --force",
		})
	}
	if len(foreign) > 0 {
		c.Next = append(c.Next, Step{Do: fmt.Sprintf("the hub does not know the %s: who set it has to remove "+
			"it", some(foreign))})
	}
	if len(c.Next) == 0 {
		c.Next = []Step{{Do: "the hub withdraws the cluster's rights; it needs seconds. If this lasts, see whether " +
			"the hub is ready",
			Command: "kubectl get --raw '/readyz?verbose'"}}
	}
	return c
}

// String is an object that a deletion waits for, as evidence.
func (l Left) String() string {
	out := l.Kind + " " + l.Name
	if l.Deleting {
		out += " is being deleted"
	} else {
		out += " is not being deleted yet"
	}
	if len(l.Finalizers) > 0 {
		out += ", held by " + strings.Join(l.Finalizers, ", ")
	}
	return out
}

// heartbeat warns of an agent that has missed heartbeats, before the hub gives it up.
func (f *ClusterFacts) heartbeat() []Cause {
	m := f.Cluster
	if f.Lease == nil || f.Lease.Spec.RenewTime == nil ||
		!meta.IsStatusConditionTrue(m.Status.Conditions, cluster.ConditionAvailable) {
		return nil
	}
	renewed := f.Lease.Spec.RenewTime.Time
	if f.Now.Sub(renewed) < 2*m.Spec.LeaseDuration() {
		return nil
	}
	return []Cause{{
		Level: Warning,
		Summary: fmt.Sprintf("The agent is late: its last heartbeat was at %s, and it should come every "+
			"%s.", ago(renewed, f.Now), lasted(m.Spec.LeaseDuration())),
		Evidence: []string{fmt.Sprintf("the hub calls the cluster unreachable when there is none until "+
			"%s", renewed.Add(m.Spec.LeaseGrace()).UTC().Format(time.RFC3339))},
		Next: lookAtAgent(f.Cluster.Name),
	}}
}

func (f *ClusterFacts) clock() []Cause {
	c := meta.FindStatusCondition(f.Cluster.Status.Conditions, cluster.ConditionClockSynced)
	if c == nil || c.Status == metav1.ConditionTrue {
		return nil
	}
	return []Cause{{
		Level: Warning,
		Summary: "The clocks of hub and agent differ by more than the time that the hub waits for heartbeats. " +
			"Certificates and leases may seem ended, or not valid yet.",
		Evidence: []string{says(c, f.Now)},
		Next:     []Step{{Do: "synchronize the clocks of the cluster's nodes and of the hub's machine with NTP"}},
	}}
}

func (f *ClusterFacts) endpoint() []Cause {
	c := meta.FindStatusCondition(f.Cluster.Status.Conditions, muster.ConditionHubEndpointCurrent)
	if c == nil {
		return nil
	}
	out := Cause{Level: Warning, Evidence: []string{says(c, f.Now)}}
	behind := f.Hub != nil && muster.EndpointGeneration(c.Message) < f.Hub.Generation
	if f.Hub != nil {
		out.Evidence = append(out.Evidence, fmt.Sprintf("the hub publishes generation %d of its endpoints: "+
			"%s", f.Hub.Generation, some(f.Hub.URLs)))
	}
	if c.Status == metav1.ConditionTrue && (!behind || c.Reason == muster.ReasonOwnEndpoint) {
		return nil
	}
	step := "the agent tries again by itself; keep the hub's former URL until then"
	switch c.Reason {
	case muster.ReasonEndpointUnreachable, muster.ReasonFellBack:
		step = "open the way from the cluster to the hub's new URL: name resolution, firewall, proxy. The agent " +
			"tries again by itself"
	case muster.ReasonEndpointUntrusted:
		step = "publish the authority of the new URL's certificate: start the hub with --external-ca-files"
	case muster.ReasonEndpointRefusesCertificate, muster.ReasonAnotherHub:
		step = "let the new URL lead to this hub: a load balancer has to pass TLS through"
	case muster.ReasonEndpointsInvalid:
		step = "start the hub again: it writes what it publishes anew"
	case muster.ReasonFormerAuthority:
		step = "the agent renews its certificate by itself; keep the former authority until then"
	}
	out.Summary = "The agent is not at the hub's newest endpoint, and works on at the one that it has."
	if c.Reason == muster.ReasonFormerAuthority {
		out.Summary = "The agent's certificate is of the hub's former authority."
	}
	out.Next = []Step{{Do: step}, {Do: "see how far the others are", Command: "muster status"}}
	return []Cause{out}
}

// renewBefore is the part of a certificate's life that is left when an agent has renewed
// it at the latest: they renew when 20 to 25 percent are left.
const renewBefore = 0.2

// certificate says how old the agent's certificate is. It warns of one that the agent
// should have renewed, and of a renewal that failed.
func (f *ClusterFacts) certificate() []Cause {
	var out []Cause
	conditions := f.Cluster.Status.Conditions
	rotated := meta.FindStatusCondition(conditions, cluster.ConditionCertificateRotated)
	if rotated != nil && rotated.Status == metav1.ConditionFalse {
		out = append(out, Cause{
			Level: Warning,
			Summary: "The agent could not renew its certificate. It tries again by itself, and is locked out when " +
				"the present one ends.",
			Evidence: append([]string{says(rotated, f.Now)}, f.describe(f.undecided())...),
			Next: append([]Step{{Do: "have it try once more",
				Command: "muster rotate-certificate " + f.Cluster.Name}}, lookAtAgent(f.Cluster.Name)...),
		})
	}
	from, until, ok := f.validity(rotated)
	if !ok {
		return out
	}
	left := until.Sub(f.Now)
	switch {
	case left <= 0:
		out = append(out, Cause{
			Level: Problem,
			Summary: fmt.Sprintf("The newest certificate of the agent that the hub knows of ended at "+
				"%s.", ago(until, f.Now)),
			Next: []Step{f.joinAgain("let the cluster join again, with a bootstrap kubeconfig for its agent")},
		})
	case float64(left) < renewBefore*float64(until.Sub(from)):
		out = append(out, Cause{
			Level: Warning,
			Summary: fmt.Sprintf("The agent's certificate ends at %s, in %s, and the agent should have renewed it.",
				until.UTC().Format(time.RFC3339), lasted(left)),
			Next: append([]Step{{Do: "have it renewed now",
				Command: "muster rotate-certificate " + f.Cluster.Name}}, lookAtAgent(f.Cluster.Name)...),
		})
	default:
		out = append(out, Cause{
			Level: OK,
			Summary: fmt.Sprintf("The agent's certificate is of %s. It ends at %s, in %s.", ago(from, f.Now),
				until.UTC().Format(time.RFC3339), lasted(left)),
		})
	}
	return out
}

// validity is when the newest certificate of the agent begins and ends, as far as the
// hub knows: from a request that it still has, or from what the agent said.
func (f *ClusterFacts) validity(rotated *metav1.Condition) (from, until time.Time, ok bool) {
	consider := func(begins, ends time.Time) {
		if ends.After(until) {
			from, until, ok = begins, ends, true
		}
	}
	for i := range f.Requests {
		block, _ := pem.Decode(f.Requests[i].Status.Certificate)
		if block == nil {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			consider(c.NotBefore, c.NotAfter)
		}
	}
	if rotated != nil && rotated.Status == metav1.ConditionTrue {
		prefix, _, _ := strings.Cut(cluster.FormatClientCertificateUpdated, "%v")
		begins, ends, _ := strings.Cut(strings.TrimPrefix(rotated.Message, prefix), " to ")
		const layout = "2006-01-02 15:04:05 -0700 MST"
		b, err := time.Parse(layout, begins)
		e, err2 := time.Parse(layout, ends)
		if err == nil && err2 == nil {
			consider(b, e)
		}
	}
	return from, until, ok
}

// laterRequests are the requests of a cluster that has joined and whose agent is heard:
// somebody else asks to be its agent.
func (f *ClusterFacts) laterRequests() []Cause {
	conditions := f.Cluster.Status.Conditions
	if !meta.IsStatusConditionTrue(conditions, cluster.ConditionJoined) ||
		!meta.IsStatusConditionTrue(conditions, cluster.ConditionAvailable) {
		return nil
	}
	if c := meta.FindStatusCondition(conditions, cluster.ConditionCertificateRotated); c != nil &&
		c.Status == metav1.ConditionFalse {
		return nil // they are evidence there
	}
	waiting := f.undecided()
	if len(waiting) == 0 {
		return nil
	}
	return []Cause{{
		Level: Warning,
		Summary: fmt.Sprintf("Nobody has decided about %s of this cluster, though its agent has a certificate.",
			plural(len(waiting), "certificate request")),
		Evidence: f.describe(waiting),
		Next:     approval(waiting),
	}}
}

func (f *ClusterFacts) managedNamespaces() []Cause {
	var out []Cause
	for _, n := range f.Cluster.Status.ManagedNamespaces {
		if c := meta.FindStatusCondition(n.Conditions, cluster.ConditionNamespaceAvailable); c != nil &&
			c.Status == metav1.ConditionFalse {
			out = append(out, Cause{
				Level: Warning,
				Summary: fmt.Sprintf("The agent could not make the namespace %s that the set %s wants in each of "+
					"its clusters.", n.Name, n.ClusterSet),
				Evidence: []string{says(c, f.Now)},
				Next:     []Step{{Do: "read what the agent says", Command: agentLog, In: f.Cluster.Name}},
			})
		}
	}
	return out
}

// taints explains which taints keep placements away.
func (f *ClusterFacts) taints() []Cause {
	var out []Cause
	for _, t := range f.Cluster.Spec.Taints {
		if cluster.IsHubTaint(t.Key) {
			if f.Cluster.Spec.AcceptsClient() { // else it has never reported, which is said already
				out = append(out, Cause{Level: OK, Summary: fmt.Sprintf(
					"The hub has put the taint %s on the cluster, so placements without a toleration leave it. It "+
						"goes when the cluster is available again.", taint(t))})
			}
			continue
		}
		effect := "Placements without a toleration do not select the cluster"
		switch t.Effect {
		case clusterv1.TaintEffectNoSelectIfNew:
			effect = "Placements without a toleration do not newly select the cluster"
		case clusterv1.TaintEffectPreferNoSelect:
			effect = "Placements prefer other clusters, if the hub has the feature gate PreferNoSelect"
		}
		cause := Cause{Level: Waiting, Summary: fmt.Sprintf("%s, because of the taint %s.", effect, taint(t))}
		if t.TimeAdded != nil && !t.TimeAdded.IsZero() {
			cause.Evidence = []string{"the taint was set at " + ago(t.TimeAdded.Time, f.Now)}
		}
		cause.Next = []Step{{Do: "when that is no longer wanted, take it off (in Terraform: taints of its " +
			"muster_managed_cluster)",
			Command: "kubectl edit managedcluster " + f.Cluster.Name}}
		out = append(out, cause)
	}
	return out
}

// taint is a taint as kubectl writes it.
func taint(t clusterv1.Taint) string {
	if t.Value == "" {
		return fmt.Sprintf("%s:%s", t.Key, t.Effect)
	}
	return fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect)
}

func decidedAs(r *csr, as certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == as && c.Status != corev1.ConditionFalse
	})
}

func nameList(requests []csr) []string {
	var names []string
	for i := range requests {
		names = append(names, requests[i].Name)
	}
	return names
}

func isOrAre(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return plural(n, noun) + " are"
}

func wereOrWas(n int, noun string) string {
	if n == 1 {
		return noun + " was"
	}
	return plural(n, noun) + " were"
}

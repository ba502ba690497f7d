package clientid

import (
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// question is a registration with everything that its answer depends on.
type question struct {
	registration *musterv1alpha1.ClusterRegistration
	// token is the one that it was created with; nil when there is none: it was
	// revoked, or the requester had another credential.
	token *token
	// named are the clusters with the client ID, derived the one with the name
	// that is made from it, and bound the one that the token is bound to.
	named          []*clusterv1.ManagedCluster
	derived, bound *clusterv1.ManagedCluster
	now            time.Time
}

// token is what a bootstrap token allows.
type token struct {
	id    string
	scope cluster.TokenScope
	// problem says why the scope can't be used.
	problem error
	// bound are the clusters that the token is bound to, by name.
	bound []string
	// expires is when it does; zero is never.
	expires time.Time
	// rejoin is the cluster that may join again with it, and rejoinUID the UID of
	// the cluster that has begun to.
	rejoin, rejoinUID string
}

// answer is what becomes of a registration: a cluster, or a reason against it.
type answer struct {
	// name is the cluster's; empty when the registration is refused.
	name string
	// create has the cluster created. Otherwise it is adopted.
	create bool
	// replaces has the cluster's client ID and UID replaced, by a token that lets
	// it join again.
	replaces bool
	// labels are those of the agent's that the new cluster gets.
	labels map[string]string

	reason, message string
	// warned are the clusters that hear of the refusal by an event.
	warned []*clusterv1.ManagedCluster
}

func refuse(reason, format string, args ...any) answer {
	return answer{reason: reason, message: fmt.Sprintf(format, args...)}
}

// about has clusters hear of a refusal.
func (a answer) about(clusters ...*clusterv1.ManagedCluster) answer {
	a.warned = clusters
	return a
}

// decide answers a registration. A client ID is no secret: the holder of the token
// of somebody else's cluster can know it. So it leads to a cluster that somebody
// has prepared, or that has joined, only with a proof: a token that is bound to the
// cluster, or that names the client ID.
func decide(q question) answer {
	if a := q.checkToken(); a.reason != "" {
		return a
	}
	named := slices.DeleteFunc(slices.Clone(q.named), func(c *clusterv1.ManagedCluster) bool { return !c.DeletionTimestamp.IsZero() })
	switch {
	case len(named) > 1:
		return refuse(muster.ReasonClientIDNotUnique, "%d ManagedClusters of the hub have the client ID %q: leave the annotation %s on one of them",
			len(named), q.clientID(), muster.ClientIDAnnotation).about(named...)
	case len(named) == 1:
		return q.adopt(named[0])
	case len(q.named) > 0:
		return q.beingDeleted(q.named[0])
	case q.token != nil && len(q.token.bound) > 0:
		return q.adoptBound()
	case q.derived != nil && !q.derived.DeletionTimestamp.IsZero():
		return q.beingDeleted(q.derived)
	case q.derived != nil:
		return refuse(muster.ReasonClusterNameTaken, "the hub would create the ManagedCluster %q, which exists and has not the client ID %q: "+
			"set its annotation %s, or delete it", q.derived.Name, q.clientID(), muster.ClientIDAnnotation).about(q.derived)
	}
	return q.accept(answer{name: muster.DerivedClusterName(q.clientID()), create: true})
}

func (q question) clientID() string { return q.registration.Spec.ClientID }

// checkToken refuses a registration whose token is not, or no longer, good for it.
func (q question) checkToken() answer {
	id := q.registration.Spec.Token
	switch t := q.token; {
	case id == "":
		return answer{}
	case t == nil:
		return refuse(muster.ReasonTokenGone, "the bootstrap token %q was revoked before the registration was answered: give the agent another one", id)
	case !t.expires.IsZero() && !q.now.Before(t.expires):
		return refuse(muster.ReasonTokenExpired, "the bootstrap token %q expired at %s, before the registration was answered: give the agent another one",
			id, t.expires.UTC().Format(time.RFC3339))
	case t.problem != nil:
		return refuse(muster.ReasonTokenUnusable, "the bootstrap token %q cannot be used: %v", id, t.problem)
	case len(t.scope.ClientIDs) > 0 && !t.names(q.clientID()):
		return refuse(muster.ReasonTokenNotFor, "the bootstrap token %q is for certain client IDs, and %q is none of them", id, q.clientID())
	}
	return answer{}
}

// names reports whether the token names a client ID.
func (t *token) names(clientID string) bool {
	return t != nil && slices.Contains(t.scope.ClientIDs, clientID)
}

// adopt answers with a cluster that is there.
func (q question) adopt(c *clusterv1.ManagedCluster) answer {
	if q.token != nil && len(q.token.bound) > 0 && !slices.Contains(q.token.bound, c.Name) {
		return refuse(muster.ReasonTokenNotFor, "the bootstrap token %q is bound to other clusters than that of the client ID %q", q.token.id, q.clientID()).about(c)
	}
	proven := q.token.names(q.clientID()) || q.token != nil && len(q.token.bound) > 0
	again := q.mayRejoin(c)
	uid := c.Annotations[muster.ClusterUIDAnnotation]
	switch {
	case uid != "" && uid != q.registration.Spec.ClusterUID && !again:
		return refuse(muster.ReasonAnotherCluster, "another cluster has registered as %q by the client ID %q: give this one another client ID; "+
			"if it is the same one, rebuilt, give the agent the kubeconfig that \"muster rejoin %s\" prints", c.Name, q.clientID(), c.Name).about(c)
	case c.HasAgent() && !proven:
		return refuse(muster.ReasonProofRequired, "the cluster %q has joined, and a bootstrap token for any cluster does not bring another agent: "+
			"give the agent the kubeconfig that \"muster rejoin %s\" prints", c.Name, c.Name).about(c)
	case c.HasAgent() && uid == "" && !again:
		return refuse(muster.ReasonAlreadyJoined, "the cluster %q has joined, and the hub does not know whether this one is it: "+
			"give the agent the kubeconfig that \"muster rejoin %s\" prints", c.Name, c.Name).about(c)
	case !proven && c.Labels[muster.RegistrationLabel] == "":
		return refuse(muster.ReasonProofRequired, "the cluster %q is prepared with the client ID %q, and a bootstrap token for any cluster does not "+
			"prove that it is this one: use a token that is bound to the cluster, or whose annotation %s names the client ID",
			c.Name, q.clientID(), cluster.TokenClientIDsAnnotation).about(c)
	}
	return q.accept(answer{name: c.Name, replaces: again})
}

// mayRejoin reports whether the token lets a cluster join again: with this UID,
// when one has begun to.
func (q question) mayRejoin(c *clusterv1.ManagedCluster) bool {
	t := q.token
	return t != nil && t.rejoin == c.Name && (t.rejoinUID == "" || t.rejoinUID == q.registration.Spec.ClusterUID)
}

// adoptBound answers with the cluster that the token is bound to, as no cluster has
// the client ID.
func (q question) adoptBound() answer {
	if len(q.token.bound) > 1 {
		return refuse(muster.ReasonTokenNotFor, "no cluster has the client ID %q, and the bootstrap token %q is bound to %d clusters: "+
			"set the annotation %s of the one that is meant", q.clientID(), q.token.id, len(q.token.bound), muster.ClientIDAnnotation)
	}
	name := q.token.bound[0]
	if q.bound == nil {
		if err := cluster.NewName(name); err != nil {
			return refuse(muster.ReasonTokenNotFor, "the bootstrap token %q is bound to the cluster %q: %v", q.token.id, name, err)
		}
		return q.accept(answer{name: name, create: true})
	}
	if !q.bound.DeletionTimestamp.IsZero() {
		return q.beingDeleted(q.bound)
	}
	// A cluster that chose no client ID has the UID as one, and gets another UID when
	// it is rebuilt.
	id, uid := q.bound.Annotations[muster.ClientIDAnnotation], q.bound.Annotations[muster.ClusterUIDAnnotation]
	if id != "" && (id != uid || !q.mayRejoin(q.bound)) {
		return refuse(muster.ReasonClientIDDiffers, "the cluster %q, which the bootstrap token %q is bound to, has the client ID %q: "+
			"start the agent with --client-id=%s, or change the annotation %s", name, q.token.id, id, id, muster.ClientIDAnnotation).about(q.bound)
	}
	return q.adopt(q.bound)
}

func (q question) beingDeleted(c *clusterv1.ManagedCluster) answer {
	return refuse(muster.ReasonClusterBeingDeleted, "the ManagedCluster %q is being deleted: the registration is looked at again when it is gone", c.Name)
}

// accept lets the agent go on, if the token may register one more cluster.
func (q question) accept(a answer) answer {
	var dropped []string
	if q.token != nil {
		scope := q.token.scope
		scope.UsedBy = slices.Clone(scope.UsedBy)
		if _, ok := scope.Use(a.name); !ok {
			return refuse(muster.ReasonTokenUsedUp, "%v", q.token.scope.UsedUp(q.token.id))
		}
		a.labels, dropped = scope.Chosen(q.registration.Spec.Labels)
	} else {
		_, dropped = (&cluster.TokenScope{}).Chosen(q.registration.Spec.Labels)
	}
	a.reason, a.message = muster.ReasonRegistered, fmt.Sprintf("the agent registers as the cluster %q", a.name)
	switch created := a.create || q.isOwn(a.name); {
	case !created && len(q.registration.Spec.Labels) > 0:
		a.message += "; its labels are left out, as the cluster was there before"
	case created && len(dropped) > 0:
		a.message += "; the token does not let agents choose these labels, which are left out: " + text.List(dropped, shownKeys)
	}
	return a
}

// shownKeys is how many labels a message lists.
const shownKeys = 10

// isOwn reports whether a cluster was created for this registration.
func (q question) isOwn(name string) bool {
	return slices.ContainsFunc(q.named, func(c *clusterv1.ManagedCluster) bool {
		return c.Name == name && c.Labels[muster.RegistrationLabel] == q.registration.Name
	})
}

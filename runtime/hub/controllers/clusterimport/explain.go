package clusterimport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"syscall"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// What is said of a cluster that can't be used. The server may be anybody's, and who
// reads the import need not be who may reach it: so conditions and events describe a
// failure in the hub's own words, and repeat nothing that the server has answered. The
// hub's log has the details.

// maxDetail is how many bytes of an error are logged that a server had a part in.
const maxDetail = 300

// printable is an error as it is logged: bounded, and without characters that a log or
// a terminal would take for something else.
func printable(err error) error {
	line := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, err.Error())), " ")
	return errors.New(text.Cut(line, maxDetail))
}

// logged is an error as a reconcile returns it. One of the hub's own stays what it is,
// so that a conflict is tried again at once; one of a cluster's does not decide that.
func logged(err error) error {
	if own := (*hubError)(nil); errors.As(err, &own) {
		return err
	}
	return printable(err)
}

// errNotKubernetes is why an answer is none of an API server.
var errNotKubernetes = errors.New("the answer is none of a Kubernetes API server")

var uid = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

// isUID reports whether a UID is one of an API server.
func isUID(id types.UID) bool { return uid.MatchString(string(id)) }

// explain says why a cluster can't be reached, and what to do.
func explain(to *kubeconfig.Contained, err error) (reason, message string) {
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return muster.ReasonKubeconfigRefused, fmt.Sprintf("The kubeconfig is refused: %s. "+
			"Give an address of the cluster that is not the hub's own; for fleets on one machine start the hub with "+
			"--cluster-import-allow-loopback.", refused)
	case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err):
		return muster.ReasonUnauthorized, fmt.Sprintf("The cluster at %s does not let the kubeconfig's user read "+
			"the namespace kube-system. Hand in a kubeconfig of a user with the role cluster-admin; it is tried "+
			"again by itself.", to.Server.Host)
	case unanswered(err):
		return muster.ReasonUnreachable, fmt.Sprintf("The cluster at %s did not answer in time. It is tried again "+
			"by itself, after pauses that grow. Check that the hub can reach this address.", to.Server.Host)
	}
	return muster.ReasonUnreachable, fmt.Sprintf("The cluster at %s can't be used: %s. It is tried again by itself, "+
		"after pauses that grow. The hub's log has the details.", to.Server.Host, describeFailure(err))
}

// describeFailure is a description of an error, out of a fixed set.
func describeFailure(err error) string {
	var name *net.DNSError
	var record tls.RecordHeaderError
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, errRedirect):
		return "the server answers with a redirect, and none is followed: use the URL that it leads to"
	case errors.Is(err, errTooLong):
		return errTooLong.Error()
	case errors.As(err, &name):
		return "the hub can't look its name up"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused"
	case errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to it"
	case errors.As(err, &record):
		return "the server does not speak TLS"
	case badCertificate(err) != "":
		return badCertificate(err)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET):
		return "the server has closed the connection"
	case unanswered(err):
		return "the server did not answer in time"
	case errors.As(err, &status) && status.Status().Reason != "":
		return describeRefusal(err)
	}
	return errNotKubernetes.Error()
}

// badCertificate is what is wrong with a server's certificate; empty when it is not
// that.
func badCertificate(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	switch {
	case errors.As(err, &unknown):
		return "the server's certificate is not by the authority in the kubeconfig"
	case errors.As(err, &host):
		return "the server's certificate is for another name than the kubeconfig's server"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate has expired, or is not valid yet by the hub's clock"
	case errors.As(err, &invalid):
		return "the server's certificate is not valid"
	case errors.As(err, &alert):
		return "the server does not accept the TLS connection"
	}
	return ""
}

// describeRefusal is a description of an API server's answer.
func describeRefusal(err error) string {
	switch {
	case apierrors.IsUnauthorized(err):
		return "the API server does not take the kubeconfig's credentials"
	case apierrors.IsForbidden(err):
		return "the API server forbids it"
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return "the API server refuses it as invalid"
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return "the object is being changed by somebody else"
	case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
		return "the API server does not have such an object or kind"
	case apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err):
		return "the API server is overloaded or not ready"
	}
	return "the API server answers with an error"
}

// explainInstall says why an agent could not be written.
func explainInstall(err error) string {
	var at *stepError
	doing := "its objects could not be written"
	if errors.As(err, &at) {
		doing = at.doing
	}
	if own := (*hubError)(nil); errors.As(err, &own) {
		return fmt.Sprintf("The agent could not be installed: %s. It is tried again by itself.", own)
	}
	text := fmt.Sprintf("The agent could not be installed: %s: %s. It is tried again by itself. The hub's log "+
		"has the details.",
		doing, describeFailure(err))
	if apierrors.IsForbidden(err) {
		text += " The kubeconfig's user needs the role cluster-admin: the agent gets rights of its own, and " +
			"nobody can give more than he has."
	}
	return text
}

// stepError says what was being done in a cluster, in the hub's words.
type stepError struct {
	doing string
	err   error
}

func (e *stepError) Error() string { return e.doing + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// hubError is an error of the hub's own, with no part of a cluster's in its text.
type hubError struct{ error }

func (e *hubError) Unwrap() error { return e.error }

// explainAuthority says that somebody else vouches for the server than before.
func explainAuthority(imp *v1alpha1.ClusterImport, e *authorityError) string {
	return fmt.Sprintf("Another authority vouches for the server in the kubeconfig than for the cluster %s at its "+
		"first import: %s, and %s was expected. The hub has sent it nothing. If the cluster's authority was "+
		"renewed, or another cluster takes the name, somebody who may update and accept the ManagedCluster sets "+
		"spec.clusterAuthority: %s",
		imp.Name, e.found, e.wanted, patchCommand(imp.Name, `"clusterAuthority":%q`, e.found))
}

// patchCommand is a command that changes fields of an import's spec.
func patchCommand(name, fields string, values ...any) string {
	return fmt.Sprintf("kubectl patch clusterimport %s --type=merge -p "+
		"'{\"spec\":{%s}}'", name, fmt.Sprintf(fields, values...))
}

// unanswered reports whether nothing came back in time.
func unanswered(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

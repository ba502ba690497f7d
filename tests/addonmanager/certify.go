package addonmanager

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// certify approves the requests of the add-on's agents, and signs those for its own
// signer.
func (m *Manager) certify(ctx context.Context) error {
	all := m.kube.CertificatesV1().CertificateSigningRequests()
	list, err := all.List(ctx, metav1.ListOptions{LabelSelector: addOnLabel + "=" + m.Name})
	if err != nil {
		return err
	}
	for i := range list.Items {
		r := &list.Items[i]
		parsed, err := m.check(r)
		if err != nil || len(r.Status.Certificate) > 0 {
			continue // it waits for an administrator
		}
		if len(r.Status.Conditions) == 0 {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: "said the add-on's manager",
			})
			if r, err = all.UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		if r.Spec.SignerName != m.Signer() {
			continue // the hub signs
		}
		if r.Status.Certificate, err = m.sign(parsed); err != nil {
			return err
		}
		if _, err := all.UpdateStatus(ctx, r, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// check reads a request that the agent of a cluster has made for the add-on.
func (m *Manager) check(r *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	clusterName := r.Labels[clusterLabel]
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || clusterName == "" || !strings.HasPrefix(r.Spec.Username, "system:open-cluster-management:"+clusterName+":") {
		return nil, errors.New("it is not an agent's")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	user, groups := m.Subject(clusterName)
	organizations := slices.Sorted(slices.Values(parsed.Subject.Organization))
	slices.Sort(groups)
	switch {
	case parsed.Subject.CommonName != user:
		return nil, errors.New("its name is another one's")
	case r.Spec.SignerName == kubeSigner && !slices.Equal(organizations, groups):
		return nil, errors.New("its groups are others")
	case r.Spec.SignerName != kubeSigner && r.Spec.SignerName != m.Signer():
		return nil, errors.New("its signer is another one")
	}
	return parsed, nil
}

func (m *Manager) sign(r *x509.CertificateRequest) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: r.Subject, DNSNames: r.DNSNames, NotBefore: m.Now(), NotAfter: m.Now().Add(m.Lifetime),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, m.CA, r.PublicKey, m.Key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

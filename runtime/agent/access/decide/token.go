package decide

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// claims are what a token of a service account says about itself.
type claims struct {
	Subject    string `json:"sub"`
	IssuedAt   int64  `json:"iat"`
	Expires    int64  `json:"exp"`
	Kubernetes struct {
		Namespace      string `json:"namespace"`
		ServiceAccount struct {
			Name string    `json:"name"`
			UID  types.UID `json:"uid"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// CheckToken checks that a token, which came from the cluster's API server, is of
// the right service account and does not live longer than asked for. Errors don't
// hold the token.
func CheckToken(token, namespace, name string, uid types.UID, expirationSeconds int32) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("what the managed cluster issued is no token of a service account")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return errors.New("what the managed cluster issued is no token of a service account: it is not base64")
	}
	var c claims
	if json.Unmarshal(payload, &c) != nil {
		return errors.New("what the managed cluster issued is no token of a service account: it is not JSON")
	}
	account := c.Kubernetes.ServiceAccount
	if c.Kubernetes.Namespace != namespace || account.Name != name || account.UID != uid {
		return fmt.Errorf("the managed cluster issued a token of the service account %s/%s with the UID %s, "+
			"and not of %s/%s with the UID %s, which the work made: it is withheld", c.Kubernetes.Namespace, account.Name, account.UID, namespace, name, uid)
	}
	asked := time.Duration(expirationSeconds) * time.Second
	if lives := time.Duration(c.Expires-c.IssuedAt) * time.Second; c.Expires == 0 || lives > asked+clockSkew {
		return fmt.Errorf("the managed cluster issued a token for %s in place of %s: it is withheld", lives, asked)
	}
	return nil
}

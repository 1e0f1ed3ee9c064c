package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"time"
)

// certify makes an authority, and certificates by it for the daemon and for its client,
// under the names that docker's client looks for.
func (e *Engine) certify() error {
	if err := os.Mkdir(e.path("tls"), 0o700); err != nil {
		return err
	}
	authority := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	key, err := e.certificate("ca", 1, authority, nil, nil)
	if err != nil {
		return err
	}
	_, server := e.certificate("server", 2, &x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, authority, key)
	_, client := e.certificate("cert", 3, &x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority, key)
	return errors.Join(server, client, os.Rename(e.path("tls/cert-key.pem"), e.path("tls/key.pem")))
}

// certificate writes a certificate and its key, signed by an authority or, if that is
// nil, by itself.
func (e *Engine) certificate(name string, serial int64, c, authority *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if authority == nil {
		authority, by = c, key
	}
	c.SerialNumber, c.Subject = big.NewInt(serial), pkix.Name{CommonName: name}
	// The clocks of two machines differ.
	c.NotBefore, c.NotAfter = time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	signed, err := x509.CreateCertificate(rand.Reader, c, authority, &key.PublicKey, by)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, errors.Join(
		os.WriteFile(e.path("tls/"+name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600),
		os.WriteFile(e.path("tls/"+name+"-key.pem"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600),
	)
}

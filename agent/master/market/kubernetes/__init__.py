"""Pods as Kubernetes Deployments: the provisioner of IADs whose nodes are in a (K3s) cluster."""

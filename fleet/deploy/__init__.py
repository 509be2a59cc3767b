"""Deploying: releases and configuration onto hosts, so that queries stay answered."""
